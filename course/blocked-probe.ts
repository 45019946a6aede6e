import type { V1Container, V1Pod } from '@kubernetes/client-node'
import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { type Packet, tracePacket } from '../dataplane/trace.ts'
import { onNode } from '../grading/failure.ts'
import { traceCommand } from '../grading/packet-trace.ts'
import { UserError } from '../host/main.ts'
import { readLiveNode } from './read-node.ts'

/**
 * Why Pods of the default namespace don't become ready, if a rule on a node stops the probes that its kubelet sends, such as
 * one that a learner added to OUTPUT.
 * @throws UserError that names the rule and the command that deletes it; resolves if no rule stops a probe
 */
export async function explainBlockedProbe(cluster: Cluster, { core }: KubeClient): Promise<void> {
  const { items } = await core.listNamespacedPod({ namespace: 'default' })
  for (const pod of items) {
    const probe = probeOf(pod)
    // A node that can't be read now explains nothing: the Pod may still become ready.
    const blocked = probe && (await blockedBy(cluster, pod, probe).catch(() => undefined))
    if (blocked !== undefined) throw new UserError(blocked)
  }
}

/** The first packet of the readiness probe of a container that is not ready; undefined if there is none. */
function probeOf({ metadata, spec, status }: V1Pod): Packet | undefined {
  if (!status?.podIP || metadata?.deletionTimestamp) return undefined
  const unready = status.containerStatuses?.find(({ ready }) => !ready)?.name
  const port = probedPort(spec?.containers.find(({ name }) => name === unready))
  return port === undefined ? undefined : { from: 'host', destination: status.podIP, port, protocol: 'tcp' }
}

function probedPort({ readinessProbe, ports }: Partial<V1Container> = {}): number | undefined {
  const { port } = readinessProbe?.httpGet ?? readinessProbe?.tcpSocket ?? {}
  return typeof port === 'number' ? port : ports?.find(({ name }) => name === port)?.containerPort
}

/** The message about the rule of the Pod's node that stops a probe; undefined if it reaches the Pod. */
async function blockedBy(cluster: Cluster, { metadata, spec }: V1Pod, probe: Packet): Promise<string | undefined> {
  const node = spec?.nodeName ?? ''
  const { destination, port } = probe
  const { state } = await readLiveNode(cluster, node, destination)
  const [stop] = tracePacket(state, probe, { matchingOnly: true }).lost
  if (!stop) return undefined
  const { verdict, table, chain, rule } = stop
  const next = rule.startsWith('-A ')
    ? `Delete the rule: ${onNode(node, `iptables -t ${table} -D ${rule.slice(3)}`)}`
    : `See its path: ${traceCommand(node, 'node', { address: destination, port })}`
  const how = verdict === 'reject' ? 'rejects' : 'drops'
  return `Pod ${metadata?.name} can't become ready: on ${node}, a rule of ${table} ${chain} ${how} the kubelet's probe of ${destination}:${port}: ${rule}. ${next}`
}
