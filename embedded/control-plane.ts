import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodePlans } from '../host/layout.ts'
import { waitFor } from '../host/wait.ts'
import { createAddons } from './addons.ts'
import type { Api, KubeObject } from './apiserver/api.ts'
import { createServerTls } from './apiserver/certificate.ts'
import { createClusterApi } from './apiserver/cluster-api.ts'
import { kubeconfig } from './apiserver/kubeconfig.ts'
import { startApiServer } from './apiserver/server.ts'
import { startControllers } from './controllers/controllers.ts'
import type { DaemonOptions } from './daemon-messages.ts'
import { versionOfProgram } from './kube-proxy/genuine.ts'
import { kubeProxyImage } from './kube-proxy/image.ts'
import { registerImage } from './kubelet/images/registry.ts'
import { startKubelets } from './kubelet/kubelets.ts'
import { startLoadBalancer } from './load-balancer/load-balancer.ts'
import type { Machine } from './machine/machine.ts'
import { createNetwork } from './network/topology.ts'

/** Something to be ended, last started first. */
export type Ending = () => unknown

export interface ControlPlaneOptions extends Pick<DaemonOptions, 'name' | 'kubeProxy'> {
  machine: Machine
  directory: string
  /** Tells whoever waits what is being done. */
  step<T>(text: string, work: () => Promise<T>): Promise<T>
  /** Where this puts what is to be ended. */
  endings: Ending[]
}

/** How the API server is reached, and the nodes that are ready. */
export interface ControlPlane {
  port: number
  token: string
  nodes: string[]
}

/** What this cluster says it is: the kubelets' version and that of the kube-proxy it models. */
const kubernetesVersion = 'v1.34.11'
const readyDeadlineMs = 30_000

/** On a booted kernel: the network of three nodes, kubelets, API server, controllers and what kubeadm adds. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { machine, name, directory, kubeProxy, step, endings } = options
  const nodes = nodePlans(name)
  const token = randomBytes(24).toString('base64url')
  const tls = createServerTls()
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
  createAddons(api, { controlPlane, kubeProxyVersion, genuine: Boolean(kubeProxy) })
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
  return { port: server.port, token, nodes: nodes.map((node) => node.name) }
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
