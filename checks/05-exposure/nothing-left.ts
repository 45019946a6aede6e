import type { CheckContext } from '../../grading/check-context.ts'
import { inChain } from '../../grading/difference-report.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/web-service.ts'
import { nothingGoesBefore } from '../01-iptables/iptables-mode.ts'
import { ipvsIsAsMade } from './packet-path.ts'

const OWN_COMMENT = /--comment "?lab-5(?!\d)/

/** kube-proxy 1.20 kept this chain in nat, too. The newer one leaves it, empty of meaning, as the kubelet has one of that name. */
const leftByOldVersion = inChain('nat KUBE-FIREWALL')

/** At the end: no rule of the learner's stands, and all that is kube-proxy's on every node is what the API objects ask for. */
export function nothingIsLeft(context: CheckContext): void {
  const { nodes, snapshot } = context
  expectMode(context, 'ipvs', { hint: 'make ipvs KUBE_PROXY_VERSION=own' })
  webService(snapshot)
  expectNodes(nodes).noRuleWhere(({ spec }) => OWN_COMMENT.test(spec), {
    look: 'iptables-save | grep lab-5',
    expected: "no rule with this lab's comment",
    hint: 'Remove it: iptables -D in place of -A, or -I.',
  })
  nothingGoesBefore(nodes)
  for (const { name } of nodes) ipvsIsAsMade(context, name)
  expectNodes(nodes)
    .where((where) => !leftByOldVersion(where), 'iptables-save; ipset save; ipvsadm -Sn; ip address show kube-ipvs0')
    .equalPrediction(
      'ipvs',
      'exactly the rules, sets, virtual servers and addresses that follow from the Services, and none of before',
    )
}
