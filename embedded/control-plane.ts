import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { V1Deployment, V1Service } from '@kubernetes/client-node'
import { nodePlans } from '../host/layout.ts'
import { waitFor } from '../host/wait.ts'
import type { Api, Draft } from './apiserver/api.ts'
import { createClusterApi } from './apiserver/api.ts'
import { createServerTls, kubeconfig } from './apiserver/certificate.ts'
import { gitVersion } from './apiserver/documents.ts'
import { startApiServer } from './apiserver/server.ts'
import { startControllers } from './controllers/controllers.ts'
import { isNodeReady, type Node } from './controllers/resources.ts'
import { kubeProxyImage, versionOfProgram } from './kube-proxy/image.ts'
import { kubeProxyConfigMap, kubeProxyDaemonSet } from './kube-proxy/manifests.ts'
import { registerImage } from './kubelet/images/registry.ts'
import { startKubelets } from './kubelet/kubelets.ts'
import { LoadBalancer } from './load-balancer/load-balancer.ts'
import type { Machine } from './machine/machine.ts'
import { createNetwork } from './network/topology.ts'
import type { DaemonOptions, DaemonState } from './state-file.ts'

const namespace = 'kube-system'
const dnsLabel = { 'k8s-app': 'kube-dns' }

/** Cluster DNS as kubeadm installs it; on kind both replicas run on the control plane, because it is the first node. */
const dnsDeployment: V1Deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'coredns', namespace, labels: dnsLabel },
  spec: {
    replicas: 2,
    selector: { matchLabels: dnsLabel },
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
    template: {
      metadata: { labels: dnsLabel },
      spec: {
        priorityClassName: 'system-cluster-critical',
        serviceAccountName: 'coredns',
        nodeSelector: { 'kubernetes.io/os': 'linux', 'node-role.kubernetes.io/control-plane': '' },
        tolerations: [
          { key: 'CriticalAddonsOnly', operator: 'Exists' },
          { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' },
        ],
        dnsPolicy: 'Default',
        containers: [
          {
            name: 'coredns',
            image: 'registry.k8s.io/coredns/coredns:v1.12.1',
            ports: [
              { name: 'dns', containerPort: 53, protocol: 'UDP' },
              { name: 'dns-tcp', containerPort: 53, protocol: 'TCP' },
              { name: 'metrics', containerPort: 9153, protocol: 'TCP' },
            ],
          },
        ],
      },
    },
  },
}

const dnsService: V1Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: 'kube-dns',
    namespace,
    labels: { ...dnsLabel, 'kubernetes.io/cluster-service': 'true', 'kubernetes.io/name': 'CoreDNS' },
  },
  spec: {
    clusterIP: '10.96.0.10',
    selector: dnsLabel,
    ports: [
      { name: 'dns', port: 53, protocol: 'UDP', targetPort: 53 },
      { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 53 },
      { name: 'metrics', port: 9153, protocol: 'TCP', targetPort: 9153 },
    ],
  },
}

/** Creates kubeadm's add-ons in kube-system: cluster DNS and kube-proxy with their accounts. */
function createAddons(api: Api, controlPlane: string, kubeProxyVersion: string, genuine: boolean): void {
  const draft = (object: object) => object as Draft
  for (const name of ['coredns', 'kube-proxy']) api.create('serviceaccounts', namespace, { metadata: { name } })
  api.create('configmaps', namespace, draft(kubeProxyConfigMap(`https://${controlPlane}:6443`)))
  api.create('daemonsets', namespace, draft(kubeProxyDaemonSet(kubeProxyVersion, genuine)))
  api.create('services', namespace, draft(dnsService))
  api.create('deployments', namespace, draft(dnsDeployment))
}

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
 * Starts on a booted kernel: the network of three nodes, kubelets, API server, controllers and kubeadm's add-ons. Resolves when the
 * nodes are ready.
 */
export async function startControlPlane(
  options: ControlPlaneOptions,
): Promise<Pick<DaemonState, 'port' | 'token' | 'nodes'>> {
  const { machine, name, directory, kubeProxy, step, endings } = options
  const nodes = nodePlans(name)
  const token = randomBytes(24).toString('base64url')
  const tls = createServerTls()
  const network = await step('Creating the network of three nodes', () => createNetwork(machine, nodes))
  const api = createClusterApi()
  const kubelets = await startKubelets(machine, network, api)
  endings.push(() => kubelets.stop())
  const server = await startApiServer({ api, backend: kubelets.backend, token, tls, log: console.log })
  endings.push(() => server.close())
  const controlPlane = nodes[0]?.name ?? name
  const apiServerEndpoint = { ip: nodes[0]?.address ?? '', port: 6443 }
  const report = (error: unknown) => console.log(error)
  const inside = `https://${apiServerEndpoint.ip}:${apiServerEndpoint.port}`
  registerImage(kubeProxyImage(kubeProxy ? { binary: kubeProxy, server: inside, ca: tls.cert, token } : undefined))
  const controllers = startControllers(api, { apiServerEndpoint, report })
  endings.push(() => controllers.stop())
  const kubeProxyVersion = kubeProxy ? await versionOfProgram(kubeProxy) : gitVersion
  createAddons(api, controlPlane, kubeProxyVersion, Boolean(kubeProxy))
  const reachable = machine.forward(controlPlane, apiServerEndpoint.ip, apiServerEndpoint.port, server.port)
  const balancer = new LoadBalancer(machine, api)
  endings.push(() => balancer.stop())
  writeFileSync(join(directory, 'ca.crt'), tls.cert)
  const address = `https://127.0.0.1:${server.port}`
  writeFileSync(join(directory, 'kubeconfig'), kubeconfig({ name, server: address, ca: tls.cert, token }), {
    mode: 0o600,
  })
  await step('Waiting for every node to be Ready', () =>
    waitFor('every node to be Ready', readyDeadlineMs, async () => {
      const ready = api.list<Node>('nodes').filter(isNodeReady)
      return ready.length === nodes.length
    }),
  )
  await reachable
  return { port: server.port, token, nodes: nodes.map((node) => node.name) }
}
