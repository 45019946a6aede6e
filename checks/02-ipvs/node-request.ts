import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectAnswered } from '../../grading/expect-traffic.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { webService } from '../../grading/web-service.ts'
import { outputLeadsToMark } from './equality.ts'
import { parseMarked, readMarked, watchMarked } from './observed-traffic.ts'
import { CLIENT, clientPod, newToken, separateRequests } from './web-requests.ts'

/** Other connections and kube-proxy's own syncs disturb a counter; so often it is read anew. */
const ATTEMPTS = 4

/** OUTPUT and the mark are as they must be, a node's request moves the marking rule's counter, a Pod's does not. */
export async function requestFromNodeIsMarked(context: CheckContext): Promise<void> {
  outputLeadsToMark(context)
  const { live, snapshot } = context
  if (!live) return
  const service = webService(snapshot)
  const { node } = clientPod(context)
  const look = onNode(node, 'iptables -t nat -nvL KUBE-SERVICES')
  let said = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const fromNode = await watchMarked(live, node, separateRequests(service, newToken(), 1))
    if (!fromNode) throw new Trouble(`the counters of ${node} could not be read`)
    expectAnswered(
      readReplies(fromNode.output),
      1,
      { snapshot, node, sender: 'node', target: service },
      {
        expected: 'an answer to a request of the node itself',
      },
    )
    const fromPod = await live.inPod(CLIENT, separateRequests(service, newToken(), 1))
    const [last] = parseMarked((await live.onNode(node, readMarked())).stdout)
    if (readReplies(fromPod.stdout)[0]?.status !== 200 || last === undefined) {
      said = 'the Pod got no answer'
      continue
    }
    const byNode = fromNode.after - fromNode.before
    const byPod = last - fromNode.after
    if (byNode === 1 && byPod === 0) return
    said = `the counter moved by ${byNode} for the node's request and by ${byPod} for the Pod's`
  }
  fail({
    node,
    look,
    expected: "one packet more on the KUBE-MARK-MASQ rule for the node's request, none for the Pod's",
    actual: said,
  })
}
