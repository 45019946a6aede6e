import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect } from 'vitest'
import { WebSocket } from 'ws'
import { createClusterApi } from '../../apiserver/api.ts'
import { createServerTls, kubeconfig } from '../../apiserver/certificate.ts'
import { loadSchema } from '../../apiserver/schema.ts'
import { type ApiServer, startApiServer } from '../../apiserver/server.ts'
import { createFakeBackend } from './fake-backend.ts'

interface KubectlOptions {
  stdin?: string
  env?: Record<string, string>
}

/** An API server with a fake backend, and kubectl to use it with. */
export class TestCluster {
  readonly api = createClusterApi()
  readonly backend = createFakeBackend()
  readonly token = 'secret-token'
  readonly folder = mkdtempSync(join(tmpdir(), 'apiserver-test-'))
  readonly #tls = createServerTls()
  readonly ca = this.#tls.cert
  readonly #started = new Set<ChildProcessWithoutNullStreams>()
  #server: ApiServer | undefined
  url = ''
  kubeconfig = ''

  async open(): Promise<void> {
    const tls = this.#tls
    const { api, backend, token } = this
    const schema = await loadSchema()
    const log = (line: string) => process.stderr.write(`${line}\n`)
    this.#server = await startApiServer({ api, backend, schema, token, tls, log })
    this.url = `https://127.0.0.1:${this.#server.port}`
    this.kubeconfig = kubeconfig({ name: 'test', server: this.url, ca: this.ca, token })
    writeFileSync(join(this.folder, 'kubeconfig'), this.kubeconfig)
  }

  /** Starts kubectl; it is ended with the cluster at the latest. */
  start(args: readonly string[], env: Record<string, string> = {}): ChildProcessWithoutNullStreams {
    const own = { KUBECONFIG: join(this.folder, 'kubeconfig'), HOME: this.folder }
    const child = spawn('kubectl', ['--cache-dir', join(this.folder, 'cache'), ...args], {
      env: { ...process.env, ...own, ...env },
    })
    this.#started.add(child)
    child.on('close', () => this.#started.delete(child))
    return child
  }

  /** Runs kubectl to its end. */
  async kubectl(args: readonly string[], { stdin = '', env = {} }: KubectlOptions = {}) {
    const child = this.start(args, env)
    child.stdin.on('error', () => {})
    child.stdin.end(stdin)
    const outputs = Promise.all([text(child.stdout), text(child.stderr)])
    const [code] = await once(child, 'close')
    const [stdout, stderr] = await outputs
    return { code, stdout, stderr }
  }

  /** Runs kubectl, which has to succeed, and returns what it printed. */
  async ok(command: string, stdin?: string): Promise<string> {
    const { code, stdout, stderr } = await this.kubectl(
      command.split(' '),
      stdin === undefined ? {} : { stdin },
    )
    if (code !== 0) throw new Error(`kubectl ${command} ended with ${code}: ${stderr}`)
    return stdout + stderr
  }

  /** Connects a WebSocket to a path of the API. */
  connect(path: string, protocol = 'v5.channel.k8s.io'): WebSocket {
    const headers = { authorization: `Bearer ${this.token}` }
    return new WebSocket(this.url.replace('https', 'wss') + path, [protocol], {
      ca: this.ca,
      headers,
    })
  }

  createPod(name: string, spec: Record<string, unknown> = {}): void {
    const containers = [{ name: 'main', image: 'nginx' }]
    this.api.create('pods', 'default', {
      metadata: { name, labels: { app: name } },
      spec: { containers, ...spec },
    })
  }

  async close(): Promise<void> {
    for (const child of this.#started) child.kill('SIGKILL')
    await this.#server?.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** A cluster for the tests of one file, while they run. */
export function useCluster(): TestCluster {
  const cluster = new TestCluster()
  beforeAll(() => cluster.open())
  afterAll(() => cluster.close())
  return cluster
}

/** Waits until a condition holds, or fails with what was waited for. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  await expect.poll(condition, { message: what, interval: 20 }).toBe(true)
}
