import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { cacheFolder, nodePlans } from '../../../host/layout.ts'
import type { ExecResult } from '../../../host/shell-word.ts'
import { waitFor } from '../../../host/wait.ts'
import { type Api, createClusterApi } from '../../apiserver/api.ts'
import type { LogRequest, NodeBackend } from '../../apiserver/api-call.ts'
import type { Event } from '../../controllers/resources.ts'
import { startKubelets } from '../../kubelet/kubelets.ts'
import type { Container, ContainerStatus, Pod } from '../../kubelet/objects.ts'
import { startMachine } from '../../machine/guest-machine.ts'
import { ensurePackages } from '../../machine/packages.ts'
import { createNetwork } from '../../network/topology.ts'

export const nodes = nodePlans('k8s-guide')
export const [controlPlane, worker, worker2] = nodes.map(({ name }) => name) as [
  string,
  string,
  string,
]

const quiet = { start() {}, end() {}, note() {} }

export type GuestCluster = Awaited<ReturnType<typeof startGuestCluster>>

/** A request for the whole log of a Pod's container `main`. */
export const wholeLog = (name: string): LogRequest => ({
  namespace: 'default',
  name,
  container: 'main',
  follow: false,
  previous: false,
  timestamps: false,
})

/** Everything a stream carries, as text. */
export async function textOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const bytes of stream) text += bytes
  return text
}

/**
 * Boots a kernel with three nodes and their kubelets; no controllers, no scheduler, no kube-proxy.
 */
export async function startGuestCluster() {
  const directory = mkdtempSync(join(tmpdir(), 'kubelet-test-'))
  const packages = await ensurePackages(cacheFolder, quiet)
  const machine = await startMachine({
    packages,
    directory,
    name: basename(directory),
    memoryMegabytes: 512,
  })
  try {
    const network = await createNetwork(machine, nodes)
    const api = createClusterApi()
    const kubelets = await startKubelets(machine, network, api)
    return {
      machine,
      network,
      api,
      kubelets,
      ...helpers(api, kubelets.backend),
      async stop() {
        await machine.stop()
        rmSync(directory, { recursive: true, force: true })
      },
    }
  } catch (error) {
    await machine.stop()
    throw error
  }
}

function helpers(api: Api, backend: NodeBackend) {
  const pod = (name: string) => api.get<Pod>('pods', 'default', name)
  async function run(
    target: Parameters<typeof backend.exec>[0]['target'],
    script: string,
  ): Promise<ExecResult> {
    const process = await backend.exec({ target, command: ['sh', '-c', script], tty: false })()
    process.stdin.end()
    const [stdout, stderr, end] = await Promise.all([
      textOf(process.stdout),
      textOf(process.stderr),
      process.exited,
    ])
    return { exitCode: end.exitCode, stdout, stderr }
  }
  const isReady = (name: string) =>
    pod(name)?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
  return {
    pod,
    /** Creates a Pod of one container, already bound to a node. */
    create(name: string, node: string, container: Partial<Container>, spec: object = {}) {
      const containers = [{ name: 'main', ...container }]
      api.create('pods', 'default', {
        metadata: { name },
        spec: { nodeName: node, containers, ...spec },
      })
    },
    async ready(...names: string[]) {
      await waitFor(`${names} to be Ready`, 20_000, async () => names.every(isReady))
    },
    async until(
      name: string,
      what: string,
      condition: (pod: Pod, status: ContainerStatus) => boolean,
      ms = 20_000,
    ) {
      await waitFor(what, ms, async () => {
        const current = pod(name)
        const status = current?.status?.containerStatuses?.[0]
        return current && status && condition(current, status)
      })
    },
    async gone(name: string, ms = 20_000) {
      await waitFor(`${name} to be gone`, ms, async () => pod(name) === undefined)
    },
    exec: (name: string, script: string, container = 'main') =>
      run({ kind: 'pod', namespace: 'default', name, container }, script),
    onNode: (name: string, script: string) => run({ kind: 'node', name }, script),
    async logs(name: string, request: Partial<LogRequest> = {}) {
      return textOf(await backend.logs({ ...wholeLog(name), ...request }))
    },
    events: (name: string) =>
      api
        .list<Event>('events')
        .filter(({ involvedObject }) => involvedObject.name === name)
        .map(({ type, reason, message }) => `${type} ${reason} ${message}`),
  }
}
