import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { type Api, createClusterApi } from '../../apiserver/api.ts'
import { createServerTls, kubeconfig } from '../../apiserver/certificate.ts'
import { startApiServer } from '../../apiserver/server.ts'
import { createFakeBackend, type FakeBackend } from './fake-backend.ts'

export interface KubectlResult {
  code: number | null
  stdout: string
  stderr: string
}

export interface TestCluster {
  api: Api
  backend: FakeBackend
  url: string
  token: string
  ca: string
  kubeconfig: string
  /** Text of a kubeconfig, for client-node. */
  kubeconfigText: string
  folder: string
  /** Runs kubectl to its end. */
  kubectl(args: readonly string[], options?: { stdin?: string; env?: Record<string, string> }): Promise<KubectlResult>
  /** Runs kubectl, which has to succeed, and returns what it printed. */
  ok(command: string, stdin?: string): Promise<string>
  /** Starts kubectl; it is ended with the cluster at the latest. */
  start(args: readonly string[]): ChildProcess
  close(): Promise<void>
}

/** The kubectl that the tests drive the API with. */
function kubectlPath(): string {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'kubectl')
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      // Not in this folder.
    }
  }
  throw new Error('these tests need kubectl on PATH and there is none: install it, then run them again')
}

export async function startTestCluster(): Promise<TestCluster> {
  const kubectl = kubectlPath()
  const tls = createServerTls()
  const token = 'secret-token'
  const api = createClusterApi()
  const backend = createFakeBackend()
  const server = await startApiServer({ api, backend, token, tls, log: (line) => process.stderr.write(`${line}\n`) })
  const folder = mkdtempSync(join(tmpdir(), 'apiserver-test-'))
  const path = join(folder, 'kubeconfig')
  const url = `https://127.0.0.1:${server.port}`
  const kubeconfigText = kubeconfig({ name: 'test', server: url, ca: tls.cert, token })
  writeFileSync(path, kubeconfigText)
  const started = new Set<ChildProcess>()

  const start = (args: readonly string[], env: Record<string, string> = {}): ChildProcess => {
    const child = spawn(kubectl, ['--cache-dir', join(folder, 'cache'), ...args], {
      stdio: 'pipe',
      env: { ...process.env, KUBECONFIG: path, HOME: folder, ...env },
    })
    started.add(child)
    child.on('close', () => started.delete(child))
    return child
  }
  const run: TestCluster['kubectl'] = (args, options = {}) =>
    new Promise((resolve, reject) => {
      const child = start(args, options.env)
      const result: KubectlResult = { code: null, stdout: '', stderr: '' }
      child.stdout?.on('data', (chunk) => {
        result.stdout += chunk
      })
      child.stderr?.on('data', (chunk) => {
        result.stderr += chunk
      })
      child.on('error', reject)
      child.on('close', (code) => resolve({ ...result, code }))
      child.stdin?.on('error', () => {})
      child.stdin?.end(options.stdin ?? '')
    })
  return {
    api,
    backend,
    url,
    token,
    ca: tls.cert,
    kubeconfig: path,
    kubeconfigText,
    folder,
    kubectl: run,
    async ok(command, stdin) {
      const { code, stdout, stderr } = await run(command.split(' '), stdin === undefined ? {} : { stdin })
      if (code !== 0) throw new Error(`kubectl ${command} ended with ${code}: ${stderr}`)
      return stdout + stderr
    },
    start,
    async close() {
      for (const child of started) child.kill('SIGKILL')
      await server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Waits until a condition holds, or fails with what was waited for. */
export async function until(what: string, condition: () => boolean, timeoutMs = 10_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
