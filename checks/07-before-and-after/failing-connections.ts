import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { atItsMoment } from '../05-exposure/moment.ts'
import { connect, connectionBars } from './connections.ts'
import { deafScene } from './deaf-pod.ts'

/** With one of three endpoints deaf, nobody is lucky or unlucky so often in a row: once in 190,000 times. */
const CONNECTIONS = 30
const WAY_BACK = 'make iptables KUBE_PROXY_VERSION=own'

/** iptables mode: the rules choose deaf as often as anybody, and who is sent there fails. */
export function connectionsFail(context: CheckContext): Promise<void> {
  return atItsMoment(context, 'connections-that-failed', async () => {
    const { live } = context
    expectMode(context, 'iptables', { hint: WAY_BACK })
    const { service, deaf } = deafScene(context)
    chainsLeadToPods(context)
    if (!live) return { at: 'a capture' }
    const connections = await connect(live, service, CONNECTIONS)
    const { sent, failed } = connections
    context.show(connectionBars(connections))
    if (failed > 0 && failed < sent) return { sent, failed }
    fail({
      look: `kubectl exec client -- curl -sS --max-time 3 http://${service.address}:${service.port}`,
      expected: `that some of ${CONNECTIONS} connections meet ${deaf.address} and fail, and others do not`,
      actual: `${failed} of ${sent} failed`,
    })
  })
}

/** Question: the share of connections that fail. */
export function shareThatFails(context: CheckContext): Truth {
  expectMode(context, 'iptables', { hint: WAY_BACK })
  const { service } = deafScene(context)
  return {
    accepts: [`1/${service.backends.length}`],
    look: 'kubectl get endpointslices -l app=web',
  }
}
