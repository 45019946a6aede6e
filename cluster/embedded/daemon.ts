// The embedded cluster's one process on the host: API server, controllers and kubelets, with the kernel as its child.
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterFolder, nodePlans } from '../layout.ts'
import { waitFor } from '../wait.ts'
import { createAddons } from './addons.ts'
import type { Api, KubeObject } from './apiserver/api.ts'
import { createServerTls } from './apiserver/certificate.ts'
import { createClusterApi } from './apiserver/cluster-api.ts'
import { kubeconfig } from './apiserver/kubeconfig.ts'
import { startApiServer } from './apiserver/server.ts'
import { startControllers } from './controllers/controllers.ts'
import type { DaemonMessage, DaemonOptions } from './daemon-messages.ts'
import { versionOfProgram } from './kube-proxy/genuine.ts'
import { kubeProxyImage } from './kube-proxy/image.ts'
import { registerImage } from './kubelet/images/registry.ts'
import { startKubelets } from './kubelet/kubelets.ts'
import { startLoadBalancer } from './load-balancer/load-balancer.ts'
import { startMachine } from './machine/uml-machine.ts'
import { createNetwork } from './network/topology.ts'
import { processStartTime, removeClusterFolder, writeDaemonState } from './state-file.ts'

/** Something to be ended, last started first. */
type Ending = () => unknown

/** What this cluster says it is: the kubelets' version and that of the kube-proxy it models. */
const kubernetesVersion = 'v1.34.11'
const readyDeadlineMs = 30_000
const endings: Ending[] = []

function tell(message: DaemonMessage): void {
  if (process.connected) process.send?.(message)
}

async function step<T>(text: string, work: () => Promise<T>): Promise<T> {
  tell({ type: 'start', text })
  const result = await work()
  tell({ type: 'end' })
  return result
}

let ending = false
/** Ends everything that was started, in order, and this process with it. */
async function shutDown(exitCode: number, reason: string): Promise<never> {
  if (!ending) {
    ending = true
    console.log(`Ending: ${reason}.`)
    for (const end of endings.reverse())
      try {
        await end()
      } catch (error) {
        console.log(error)
      }
  }
  process.exit(exitCode)
}

async function start({ name, packages, kubeProxy }: DaemonOptions): Promise<void> {
  const directory = clusterFolder(name)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const nodes = nodePlans(name)
  const token = randomBytes(24).toString('base64url')
  const tls = createServerTls()
  const machine = await step('Booting the kernel', () =>
    startMachine({ packages, directory: join(directory, 'uml'), name }),
  )
  endings.push(() => machine.stop())
  machine.ended.then((reason) => shutDown(1, `the kernel is gone (${reason})`))
  const network = await step('Laying the network of three nodes', () => createNetwork(machine, nodes))
  const api = createClusterApi()
  const kubelets = await startKubelets({ machine, network, api, nodes })
  endings.push(() => kubelets.stop())
  const server = await startApiServer({ api, backend: kubelets.backend, token, tls, log: console.log })
  endings.push(() => server.close())
  const controlPlane = nodes[0]?.name ?? name
  const apiServerEndpoint = { ip: nodes[0]?.address ?? '', port: 6443 }
  const report = (error: unknown) => console.log(error)
  const inside = `https://${apiServerEndpoint.ip}:${apiServerEndpoint.port}`
  registerImage(kubeProxyImage(kubeProxy ? { binary: kubeProxy, server: inside, ca: tls.ca, token } : undefined))
  const controllers = startControllers(api, { caCertificate: tls.ca, apiServerEndpoint, report })
  endings.push(() => controllers.stop())
  const kubeProxyVersion = kubeProxy ? await versionOfProgram(kubeProxy) : kubernetesVersion
  createAddons(api, { controlPlane, kubeProxyVersion })
  const reachable = machine.forward(controlPlane, apiServerEndpoint.ip, apiServerEndpoint.port, server.port)
  const balancer = startLoadBalancer({ machine, network, api })
  endings.push(() => balancer.stop())
  writeFileSync(join(directory, 'ca.crt'), tls.ca)
  const address = `https://127.0.0.1:${server.port}`
  writeFileSync(join(directory, 'kubeconfig'), kubeconfig({ name, server: address, ca: tls.ca, token }), {
    mode: 0o600,
  })
  await step('Waiting for every node to be Ready', () => allNodesReady(api, nodes.length))
  await reachable
  const startTime = processStartTime(process.pid) ?? ''
  writeDaemonState(name, {
    pid: process.pid,
    startTime,
    port: server.port,
    token,
    nodes: nodes.map((node) => node.name),
  })
  endings.push(() => removeClusterFolder(name))
}

interface NodeObject extends KubeObject {
  status?: { conditions?: { type: string; status: string }[] }
}

function allNodesReady(api: Api, count: number): Promise<boolean> {
  const ready = () =>
    api
      .list<NodeObject>('nodes')
      .filter(({ status }) => status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'))
  return waitFor('every node to be Ready', readyDeadlineMs, async () => ready().length === count)
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => shutDown(0, signal))
let ready = false
// Whoever asked for the cluster is gone before it is up: nobody would know of it.
process.on('disconnect', () => {
  if (!ready) shutDown(1, 'the command that started this cluster ended')
})
// A fault in one corner must not take the learner's cluster down with it; it is on record in the log.
process.on('uncaughtException', (error) => console.log(error))
process.on('unhandledRejection', (error) => console.log(error))

try {
  await start(JSON.parse(process.argv[2] ?? '{}') as DaemonOptions)
  ready = true
  tell({ type: 'ready' })
  if (process.connected) process.disconnect()
} catch (error) {
  const text = error instanceof Error ? error.message : String(error)
  tell({ type: 'failed', text })
  await shutDown(1, text)
}
