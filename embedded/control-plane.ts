import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodePlans } from '../host/layout.ts'
import { waitFor } from '../host/wait.ts'
import { addons } from './addons.ts'
import { createClusterApi } from './apiserver/api.ts'
import { createServerTls, kubeconfig } from './apiserver/certificate.ts'
import { gitVersion } from './apiserver/documents.ts'
import { loadSchema } from './apiserver/schema.ts'
import { startApiServer } from './apiserver/server.ts'
import { startControllers } from './controllers/controllers.ts'
import { createKubernetesEndpoints } from './controllers/endpoints.ts'
import { hasReadyCondition, type NodeObject } from './controllers/resources.ts'
import { kubeProxyImage, versionOfProgram } from './kube-proxy/image.ts'
import { registerImage } from './kubelet/images/registry.ts'
import { startKubelets } from './kubelet/kubelets.ts'
import { LoadBalancer } from './load-balancer/load-balancer.ts'
import type { Machine } from './machine/machine.ts'
import { createNetwork } from './network/topology.ts'
import type { DaemonOptions, DaemonState } from './state-file.ts'

/** A function that ends a started component; the last one started is ended first. */
export type Ending = () => unknown

export interface ControlPlaneOptions extends Pick<DaemonOptions, 'name' | 'kubeProxy'> {
  machine: Machine
  directory: string
  /** Reports a step to the process that waits for the cluster to start. */
  step<T>(text: string, work: () => Promise<T>): Promise<T>
  /** Collects the functions that end the started components. */
  endings: Ending[]
}

const readyDeadlineMs = 30_000

/**
 * Starts on a booted kernel: the network, kubelets, API server, controllers and kubeadm's add-ons.
 * Resolves when the nodes are ready.
 */
export async function startControlPlane(
  options: ControlPlaneOptions,
): Promise<Pick<DaemonState, 'port' | 'token' | 'nodes'>> {
  const { machine, name, directory, kubeProxy, step, endings } = options
  const nodes = nodePlans(name)
  const token = randomBytes(24).toString('base64url')
  const tls = createServerTls()
  const [network, schema] = await Promise.all([
    step('Creating the network of three nodes', () => createNetwork(machine, nodes)),
    loadSchema(),
  ])
  const api = createClusterApi()
  const kubelets = await startKubelets(machine, network, api)
  endings.push(() => kubelets.stop())
  const server = await startApiServer({
    api,
    backend: kubelets.backend,
    schema,
    token,
    tls,
    log: console.log,
  })
  endings.push(() => server.close())
  const controlPlane = nodes[0]?.name ?? name
  const apiServerEndpoint = { ip: nodes[0]?.address ?? '', port: 6443 }
  const report = (error: unknown) => console.log(error)
  const inside = `https://${apiServerEndpoint.ip}:${apiServerEndpoint.port}`
  registerImage(
    kubeProxyImage(
      kubeProxy ? { binary: kubeProxy, server: inside, ca: tls.cert, token } : undefined,
    ),
  )
  createKubernetesEndpoints(api, apiServerEndpoint)
  const controllers = startControllers(api, { report })
  endings.push(() => controllers.stop())
  const version = kubeProxy ? await versionOfProgram(kubeProxy) : gitVersion
  for (const addon of addons({
    server: `https://${controlPlane}:6443`,
    version,
    genuine: kubeProxy !== undefined,
  }))
    api.create(`${addon.kind.toLowerCase()}s`, 'kube-system', addon)
  const reachable = machine.forward(
    controlPlane,
    apiServerEndpoint.ip,
    apiServerEndpoint.port,
    server.port,
  )
  const balancer = new LoadBalancer(machine, api)
  endings.push(() => balancer.stop())
  writeFileSync(join(directory, 'ca.crt'), tls.cert)
  const address = `https://127.0.0.1:${server.port}`
  writeFileSync(
    join(directory, 'kubeconfig'),
    kubeconfig({ name, server: address, ca: tls.cert, token }),
    {
      mode: 0o600,
    },
  )
  await step('Waiting for every node to be Ready', () =>
    waitFor('every node to be Ready', readyDeadlineMs, async () =>
      api.list<NodeObject>('nodes').every(hasReadyCondition),
    ),
  )
  await reachable
  return { port: server.port, token, nodes: nodes.map((node) => node.name) }
}
