import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { cacheFolder, nodePlans } from '../../../host/layout.ts'
import { waitFor } from '../../../host/wait.ts'
import { type Api, createClusterApi } from '../../apiserver/api.ts'
import type { LogRequest } from '../../apiserver/api-call.ts'
import type { Event } from '../../controllers/resources.ts'
import { type Kubelets, startKubelets } from '../../kubelet/kubelets.ts'
import type { Container, ContainerStatus, Pod } from '../../kubelet/objects.ts'
import { startMachine } from '../../machine/guest-machine.ts'
import type { Machine, RunResult } from '../../machine/machine.ts'
import { ensurePackages } from '../../machine/packages.ts'
import { createNetwork, type Network } from '../../network/topology.ts'

export const nodes = nodePlans('k8s-guide')
export const [controlPlane, worker, worker2] = nodes.map(({ name }) => name) as [string, string, string]

const quiet = { start() {}, end() {}, note() {} }

export interface GuestCluster {
  machine: Machine
  network: Network
  api: Api
  kubelets: Kubelets
  pod(name: string): Pod | undefined
  /** Creates a Pod of one container, already bound to a node. */
  create(name: string, node: string, container: Partial<Container>, spec?: object): void
  ready(...names: string[]): Promise<void>
  until(
    name: string,
    what: string,
    condition: (pod: Pod, status: ContainerStatus) => boolean,
    ms?: number,
  ): Promise<void>
  gone(name: string, ms?: number): Promise<void>
  exec(name: string, script: string, container?: string): Promise<RunResult>
  onNode(node: string, script: string): Promise<RunResult>
  logs(name: string, request?: Partial<LogRequest>): Promise<string>
  events(name: string): string[]
  stop(): Promise<void>
}

/** Everything a stream carries, as text. */
export async function textOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const bytes of stream) text += bytes
  return text
}

/** Boots a kernel with three nodes and their kubelets; no controllers, no scheduler, no kube-proxy. */
export async function startGuestCluster(): Promise<GuestCluster> {
  const directory = mkdtempSync(join(tmpdir(), 'kubelet-test-'))
  const packages = await ensurePackages(cacheFolder, quiet)
  const machine = await startMachine({ packages, directory, name: basename(directory), memoryMegabytes: 512 })
  try {
    const network = await createNetwork(machine, nodes)
    const api = createClusterApi()
    const kubelets = await startKubelets(machine, network, api)
    return {
      machine,
      network,
      api,
      kubelets,
      ...helpers(api, kubelets),
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

function helpers(api: Api, { backend }: Kubelets) {
  const pod = (name: string) => api.get<Pod>('pods', 'default', name)
  async function run(target: Parameters<typeof backend.exec>[0]['target'], script: string): Promise<RunResult> {
    const process = await backend.exec({ target, command: ['sh', '-c', script], tty: false })()
    process.stdin.end()
    const [stdout, stderr, end] = await Promise.all([textOf(process.stdout), textOf(process.stderr), process.exited])
    return { exitCode: end.code ?? 128, stdout, stderr }
  }
  const isReady = (name: string) =>
    pod(name)?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
  return {
    pod,
    create(name: string, node: string, container: Partial<Container>, spec: object = {}) {
      const containers = [{ name: 'main', ...container }]
      api.create('pods', 'default', { metadata: { name }, spec: { nodeName: node, containers, ...spec } })
    },
    async ready(...names: string[]) {
      await waitFor(`${names} to be Ready`, 20_000, async () => names.every(isReady))
    },
    async until(name: string, what: string, condition: (pod: Pod, status: ContainerStatus) => boolean, ms = 20_000) {
      await waitFor(what, ms, async () => {
        const current = pod(name)
        const status = current?.status?.containerStatuses?.[0]
        return current && status && condition(current, status)
      })
    },
    async gone(name: string, ms = 20_000) {
      await waitFor(`${name} to be gone`, ms, async () => pod(name) === undefined)
    },
    exec: (name: string, script: string, container?: string) =>
      run({ kind: 'pod', namespace: 'default', name, ...(container !== undefined && { container }) }, script),
    onNode: (name: string, script: string) => run({ kind: 'node', name }, script),
    async logs(name: string, request: Partial<LogRequest> = {}) {
      const base = { namespace: 'default', name, follow: false, previous: false, timestamps: false }
      return textOf(await backend.logs({ ...base, ...request }))
    },
    events: (name: string) =>
      api
        .list<Event>('events')
        .filter(({ involvedObject }) => involvedObject.name === name)
        .map(({ type, reason, message }) => `${type} ${reason} ${message}`),
  }
}
