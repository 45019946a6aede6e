import type { V1Container, V1Pod } from '@kubernetes/client-node'
import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { familyOf, printEndpoint } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type Packet, tracePacket } from '../dataplane/trace.ts'
import { onNode, ruleInShell } from '../grading/failure.ts'
import { traceCommand } from '../grading/packet-trace.ts'
import { Refusal } from '../host/main.ts'
import { readLiveNode } from './read-node.ts'

/**
 * Why Pods of the default namespace don't become ready, if a rule on a node stops the probes that
 * its kubelet sends, such as one that a learner added to OUTPUT.
 * @throws Refusal that names the rule and the command that deletes it; resolves if no rule stops a
 * probe
 */
export async function explainBlockedProbe(cluster: Cluster, { core }: KubeClient): Promise<void> {
  const { items } = await core.listNamespacedPod({ namespace: 'default' })
  for (const pod of items) {
    const probe = probeOf(pod)
    if (!probe) continue
    const reading = readLiveNode(cluster, pod.spec?.nodeName ?? '', probe.destination)
    // A node that can't be read now explains nothing: the Pod may still become ready.
    const blocked = await reading
      .then(({ state }) => blockedBy(state, pod, probe))
      .catch(() => undefined)
    if (blocked !== undefined) throw new Refusal(blocked)
  }
}

/**
 * The first packet of the readiness probe of a container that runs and is not ready; undefined if
 * there is none.
 */
export function probeOf({ metadata, spec, status }: V1Pod): Packet | undefined {
  if (!status?.podIP || metadata?.deletionTimestamp) return undefined
  const unready = status.containerStatuses?.find(
    ({ ready, state }) => !ready && state?.running,
  )?.name
  const port = probedPort(spec?.containers.find(({ name }) => name === unready))
  return port === undefined
    ? undefined
    : { from: 'host', destination: status.podIP, port, protocol: 'tcp' }
}

function probedPort({ readinessProbe, ports }: Partial<V1Container> = {}): number | undefined {
  const { port } = readinessProbe?.httpGet ?? readinessProbe?.tcpSocket ?? {}
  return typeof port === 'number' ? port : ports?.find(({ name }) => name === port)?.containerPort
}

/**
 * The message about the rule of the Pod's node that stops every probe; undefined if one may reach
 * the Pod.
 */
export function blockedBy(
  state: NodeState,
  { metadata, spec }: V1Pod,
  probe: Packet,
): string | undefined {
  const node = spec?.nodeName ?? ''
  const { destination: address, port } = probe
  const { lost, outcomes } = tracePacket(state, probe, { matchingOnly: true })
  const [stop] = lost
  if (!stop || outcomes.length > 0) return undefined
  const { verdict, table, chain, rule } = stop
  const iptables = familyOf(address) === 'ipv6' ? 'ip6tables' : 'iptables'
  const next = rule.startsWith('-A ')
    ? `Delete the rule: ${onNode(node, `${iptables} -t ${table} -D ${ruleInShell(rule.slice(3))}`)}`
    : `See its path: ${traceCommand(node, 'node', { address, port })}`
  const how = verdict === 'reject' ? 'rejects' : 'drops'
  const what = rule.startsWith('-P ') ? 'the policy' : 'a rule'
  return `Pod ${metadata?.name} can't become ready: on ${node}, ${what} of ${table} ${chain} ${how} the kubelet's probe of ${printEndpoint(address, port)}: ${rule}. ${next}`
}
