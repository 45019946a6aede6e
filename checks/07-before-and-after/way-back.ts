import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { holdsOnceSeen, mustHaveSeen } from '../../grading/seen-moment.ts'
import { webService } from '../../grading/web-service.ts'
import { nothingGoesBefore } from '../01-iptables/iptables-mode.ts'
import { chainsLeadToPods } from '../01-iptables/web-chains.ts'
import { connect, mustAllBeAnswered } from './connections.ts'
import { mustBeProbed } from './deaf-pod.ts'
import { mustHaveUserspace, RELAY_NOTE } from './userspace.ts'

const WAY_BACK = 'make iptables KUBE_PROXY_VERSION=own, then make flush-nat'
const CONNECTIONS = 12

/** After userspace mode was seen: the cluster's own kube-proxy in iptables mode, and nothing of the old one on any node. */
export function nothingOfUserspace(context: CheckContext): void {
  mustHaveUserspace(context)
  mustHaveSeen(context, {
    mode: 'userspace',
    note: RELAY_NOTE,
    look: 'curl -s localhost:10249/proxyMode',
    hint: 'make userspace, then make check-7 STEP=relay.',
  })
  expectMode(context, 'iptables', { hint: WAY_BACK })
  mustHoldIptablesModeOnly(context)
}

/** Every node holds what iptables mode programs, before the rules of others, and nothing of another mode. */
export function mustHoldIptablesModeOnly({ nodes }: Pick<CheckContext, 'nodes'>): void {
  expectNodes(nodes).nothingOfOtherModes('iptables', { look: 'iptables-save | grep "^:KUBE-"' })
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction('iptables', 'exactly the chains and rules that follow from the Services and their endpoints')
  nothingGoesBefore(nodes)
}

/** iptables mode, and no connection fails: the probe has taken deaf out of what rules lead to. */
export function probeKeepsItOut(context: CheckContext): Promise<void> {
  return holdsOnceSeen(context, 'deaf-and-probed', async () => {
    await probeHelps(context)
    return { pod: 'deaf' }
  })
}

async function probeHelps(context: CheckContext): Promise<void> {
  mustBeProbed(context)
  expectMode(context, 'iptables', { hint: WAY_BACK })
  chainsLeadToPods(context)
  const { live, snapshot } = context
  if (!live) return
  const service = webService(snapshot)
  mustAllBeAnswered(context, service, await connect(live, service, CONNECTIONS), CONNECTIONS)
}
