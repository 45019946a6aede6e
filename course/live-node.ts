import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { nodeReportRequest } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { readCapturedNode } from '../dataplane/capture.ts'
import { familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { UserError } from '../host/main.ts'
import { hasOutside, OUTSIDE } from '../host/outside.ts'

/** The machine that `NODE` names: a node, or the machine outside the cluster. Throws as chosenNode does. */
export async function chosenMachine(cluster: Cluster): Promise<string> {
  return process.env.NODE === OUTSIDE && hasOutside(cluster) ? OUTSIDE : chosenNode(cluster)
}

/** The node that `NODE` names, or the first worker. Throws with the existing names. */
export async function chosenNode(cluster: Cluster, wish = process.env.NODE): Promise<string> {
  const nodes = await cluster.nodes()
  // npm sets NODE to the path of its Node.js for its child processes.
  const requested = wish?.includes('/') ? undefined : wish
  const node = requested || (nodes.find((name) => !name.endsWith('control-plane')) ?? nodes[0])
  if (node !== undefined && nodes.includes(node)) return node
  throw new UserError(`There is no node "${node}": use NODE= with one of ${nodes.join(', ')}.`)
}

/** Origin, destination and node of a packet for scripts/trace.ts, with names resolved to addresses. */
interface LiveRoute {
  from: string
  to: string
  node: string
}

const podName = /^pod\/(?:([a-z0-9.-]+)\/)?([a-z0-9.-]+)$/
const serviceName = /^svc\/(?:([a-z0-9.-]+)\/)?([a-z0-9.-]+)(:\d+)?(\/\w+)?$/

/**
 * Looks up `pod/[NAMESPACE/]NAME` and `svc/[NAMESPACE/]NAME[:PORT][/udp]`; anything else is unchanged. The node is the
 * requested one, else the Pod's, else the first worker. Throws UserError for a Pod or Service that does not exist or has no
 * address.
 */
export async function resolveRoute(cluster: Cluster, from: string, to: string, wish?: string): Promise<LiveRoute> {
  const { core } = await kubeClient(cluster)
  const [, podNamespace = 'default', pod] = podName.exec(from) ?? []
  const [, namespace = 'default', service, port, protocol = ''] = serviceName.exec(to) ?? []
  const route = { from, to, node: wish }
  const missing = (what: string) => () => {
    throw new UserError(`There is no ${what}; \`kubectl get pods,services -A\` lists the existing ones.`)
  }
  if (pod) {
    const { spec, status } = await core
      .readNamespacedPod({ namespace: podNamespace, name: pod })
      .catch(missing(`Pod "${pod}" in namespace "${podNamespace}"`))
    if (!status?.podIP)
      throw new UserError(`Pod "${pod}" has no address yet; \`kubectl get pod ${pod} -o wide\` shows it.`)
    route.from = spec?.hostNetwork ? 'host' : `pod:${status.podIP}`
    route.node ??= spec?.nodeName
  }
  if (service) {
    const { spec } = await core
      .readNamespacedService({ namespace, name: service })
      .catch(missing(`Service "${service}" in namespace "${namespace}"`))
    const address = spec?.clusterIP
    if (!address || address === 'None')
      throw new UserError(`Service "${service}" has no ClusterIP: DNS returns the addresses of its Pods.`)
    route.to = `${address.includes(':') ? `[${address}]` : address}${port ?? `:${spec.ports?.[0]?.port}`}${protocol}`
  }
  return { ...route, node: await chosenNode(cluster, route.node) }
}

/** The state of a node of a live cluster, read with one exec. Throws UserError with every error in its output. */
export async function stateOfNode(cluster: Cluster, node: string, destination: string): Promise<NodeState> {
  const request = nodeReportRequest('thorough')
  const { stdout } = await runOnNode(cluster, node, request.script, { timeoutMs: 30_000, readOnly: true })
  const { state, faults } = readCapturedNode(request.read(stdout).files, { family: familyOf(destination) })
  if (faults.length === 0) return state
  throw new UserError(`${node} cannot be read:\n${faults.map(({ message }) => `  ${message}`).join('\n')}`)
}
