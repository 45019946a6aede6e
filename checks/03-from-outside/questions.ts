import { targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectSpread } from '../../grading/expect-object.ts'
import { NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { nodeAddressOf, objectsOf } from '../../grading/snapshot.ts'
import { WEB_NAMESPACE, webService } from '../../grading/web-service.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { localService, nodePortService } from './exposed-service.ts'
import { expectedShare, isUneven, podsByNode } from './shares.ts'

/** Where KUBE-NODEPORTS sends a packet for the node port: KUBE-EXT-… since 1.24, the Service's own chains before. */
export function nodePortChain({ snapshot, nodes }: CheckContext): Truth {
  const { nodePort } = nodePortService(snapshot)
  const rules =
    (nodes[0] && evaluate(nodes[0], 'iptables').expected.iptables.get('nat'))?.get('KUBE-NODEPORTS')?.rules ?? []
  const targets = rules
    .filter(({ spec }) => spec.includes(`--dport ${nodePort} `))
    .flatMap(({ spec }) => targetOf(spec) ?? [])
    .filter((target) => target !== 'KUBE-MARK-MASQ')
  return { accepts: [...new Set(targets)], inspect: "make exec CMD='iptables -t nat -S KUBE-NODEPORTS'" }
}

/**
 * The client that web logs for a request to a node without Pods: the node's own address, because the Pods are on other nodes.
 */
export function loggedClient({ snapshot, nodes }: CheckContext): Truth {
  const { nodePort, policy } = nodePortService(snapshot)
  const taken = new Set(webService(snapshot).backends.map(({ node }) => node))
  const free = nodes.filter(({ name }) => !taken.has(name))
  const controlPlanes = objectsOf(snapshot).nodes.filter(
    ({ labels }) => 'node-role.kubernetes.io/control-plane' in labels,
  )
  const asked = free.find(({ name }) => controlPlanes.some((node) => node.name === name)) ?? free[0]
  if (!asked || policy !== 'Cluster')
    throw new NotApplicable('there is no node without Pods of web whose node port answers')
  const address = nodeAddressOf(snapshot, asked.name)
  return { accepts: [address], inspect: onNode(OUTSIDE, `curl -s ${address}:${nodePort}`) }
}

/** The share of one Pod on the node with the most Pods, while they are unevenly spread. */
export function crowdedShare({ snapshot, live }: CheckContext): Truth {
  localService(snapshot)
  const pods = podsByNode(snapshot, webService(snapshot))
  const inspect = `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`
  if (!live && !isUneven([...pods.values()]))
    throw new NotApplicable('the Pods were spread evenly when this capture was taken')
  expectSpread(pods, (counts) => counts.length > 0 && isUneven(counts), {
    inspect,
    expected: 'Pods that are spread unevenly, which the question is about',
  })
  const [crowded = ''] = [...pods].sort(([, a], [, b]) => b - a)[0] ?? []
  const share = expectedShare(pods, crowded)
  const percent = share * 100
  return {
    accepts: [`1/${Math.round(1 / share)}`, String(share), ...[0, 1, 2].map((digits) => `${percent.toFixed(digits)}%`)],
    inspect,
  }
}
