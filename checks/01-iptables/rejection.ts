import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { httpRequests, readReplies } from '../../grading/http-requests.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { clusterService } from '../../grading/web-service.ts'
import { CLIENT, clientPod } from '../02-ipvs/web-requests.ts'
import { CLIENT_MANIFEST, mustRunIptables } from './iptables-mode.ts'

const NAME = 'nobody'
/** curl's code for a connection that was refused; one that was dropped ends by time, with 28. */
const REFUSED = 7
const LOOK = 'iptables -t filter -S KUBE-SERVICES'

/** A Service without endpoints is refused by a rule of every node, for a Pod and for the node itself. */
export async function nobodyRefuses(context: CheckContext): Promise<void> {
  const { nodes, snapshot, live } = context
  mustRunIptables(nodes)
  const { address, port } = nobody(snapshot)
  expectNodes(nodes)
    .chains('filter KUBE-SERVICES', 'filter FORWARD', 'filter OUTPUT')
    .equalPrediction('iptables', 'a rule with REJECT for each Service port that has no endpoint, and no other', {
      look: LOOK,
    })
  for (const node of nodes) rejectRule(node, address)
  if (!live) return
  const client = clientPod(context, CLIENT_MANIFEST)
  const request = httpRequests([{ address, port }])
  const typed = `curl -sS -o /dev/null --max-time 3 http://${address}:${port}/`
  const answers = await Promise.all([
    live.inPod(CLIENT, request).then(reply({ node: client.node, look: `kubectl exec client -- ${typed}` })),
    ...nodes.map(({ name }) => live.onNode(name, request).then(reply({ node: name, look: onNode(name, typed) }))),
  ])
  const other = answers.find(({ code }) => code !== REFUSED)
  if (!other) return
  fail({
    node: other.node,
    look: other.look,
    expected: 'a connection that is refused at once (curl ends with 7)',
    actual: other.status > 0 ? 'an answer' : other.error,
  })
}

/** What came of the only request of a script, with where it was sent from. */
const reply =
  <T>(from: T) =>
  ({ stdout, stderr }: { stdout: string; stderr: string }) => {
    const [{ code, status, error } = { code: -1, status: 0, error: stderr.trim() }] = readReplies(stdout)
    return { ...from, code, status, error }
  }

/** What the rule of a Service without endpoints answers with. */
export function rejectedWith({ nodes, snapshot }: CheckContext): Truth {
  mustRunIptables(nodes)
  const { address } = nobody(snapshot)
  const [node] = nodes.slice(-1)
  const message = node && /--reject-with (\S+)/.exec(rejectRule(node, address))?.[1]
  return { accepts: message === undefined ? [] : [message], look: onNode(node?.name ?? '', LOOK) }
}

/** The learner's Service that selects no Pod. */
function nobody(snapshot: Snapshot): { address: string; port: number } {
  return clusterService(snapshot, NAME, {
    look: `kubectl get service,endpointslices -l app=${NAME}`,
    expected: `a Service ${NAME} with a ClusterIP, and no Pod behind it`,
    hint: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
}

function rejectRule({ name, state }: NodeView, address: string): string {
  const rules = state.iptables.get('filter')?.get('KUBE-SERVICES')?.rules ?? []
  const rule = rules.find(({ spec }) => spec.includes(`-d ${address}/32 `) && spec.includes('-j REJECT'))
  if (rule) return rule.spec
  return fail({
    node: name,
    look: onNode(name, LOOK),
    expected: `a rule in the filter table's KUBE-SERVICES that rejects packets for ${address}`,
    actual: 'none: the Service has an endpoint, or the rule is lost',
  })
}
