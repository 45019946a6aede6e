import * as z from 'zod'
import { type CheckContext, onceNoted } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectOnNode, expectThat, NotApplicable } from '../../grading/failure.ts'
import { stateOf } from '../../grading/snapshot.ts'

const DEVICE = 'kube-ipvs0'
const HAIRPIN_SETS = ['KUBE-LOOP-BACK', 'KUBE-6-LOOP-BACK'] as const

const DEFAULT_SCHEDULER = 'rr'
const otherScheduler = z.string().refine((chosen) => chosen !== '' && chosen !== DEFAULT_SCHEDULER)
const OUTPUTS = { ipset: 'ipset-save', ipvsadm: 'ipvsadm-save' }

/**
 * All sets except KUBE-LOOP-BACK equal the prediction, and a rule of KUBE-SERVICES matches against
 * KUBE-CLUSTER-IP.
 */
export function setsEqualServices({ nodes }: CheckContext): void {
  expectNodes(nodes).chain('nat KUBE-SERVICES').hasRule('--match-set KUBE-CLUSTER-IP dst,dst', {
    expected:
      'rules of KUBE-SERVICES that match destination and port against the set KUBE-CLUSTER-IP',
    missing: 'no rule matches against the set',
  })
  expectNodes(nodes)
    .setsExcept(HAIRPIN_SETS, 'KUBE-CLUSTER-IP')
    .equalPrediction('ipvs', 'exactly the ClusterIPs and ports of all Services as members')
}

/**
 * PREROUTING begins with KUBE-SERVICES, and the chain and those that it jumps to equal the
 * prediction.
 */
export function preroutingLeadsToServices({ nodes }: CheckContext): void {
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes)
    .chains(
      'nat KUBE-SERVICES',
      'nat KUBE-NODE-PORT',
      'nat KUBE-LOAD-BALANCER',
      'nat KUBE-FIREWALL',
      'nat PREROUTING',
    )
    .equalPrediction('ipvs', 'the rules of KUBE-SERVICES, and no others, in their order')
  expectNodes(nodes).noForeignRuleAffectsServicePackets('ipvs')
}

/** OUTPUT begins with KUBE-SERVICES, and the only rule of KUBE-MARK-MASQ sets the mark. */
export function outputLeadsToMark({ snapshot, nodes }: CheckContext): void {
  const mark = `0x${(2 ** configOf(snapshot).masqueradeBit).toString(16)}`
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes)
    .chains('nat KUBE-MARK-MASQ', 'nat OUTPUT')
    .equalPrediction('ipvs', `one rule in KUBE-MARK-MASQ that sets the mark ${mark}`)
}

/**
 * POSTROUTING begins with KUBE-POSTROUTING, whose rules and hairpin set equal the prediction for
 * this node.
 */
export function postroutingMasquerades({ nodes }: CheckContext): void {
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
  expectNodes(nodes)
    .chains('nat KUBE-POSTROUTING', 'nat POSTROUTING')
    .equalPrediction(
      'ipvs',
      'the four rules: hairpin masquerade, return unless marked, clear the mark, masquerade',
    )
  expectNodes(nodes)
    .sets(...HAIRPIN_SETS)
    .equalPrediction('ipvs', "exactly this node's endpoints as ip,proto:port,ip")
}

/**
 * Virtual servers equal Services, real servers equal ready endpoints; scheduler, method and weight
 * included.
 */
export function virtualServersEqualServices({ snapshot, nodes }: CheckContext): void {
  const { scheduler } = configOf(snapshot).ipvs
  const expected = `a virtual server for each Service port, ${scheduler}, each ready Pod behind it as Masq with weight 1`
  expectNodes(nodes).virtualServers().equalPrediction('ipvs', expected)
  expectNodes(nodes).everyPodLinkUp('ipvs')
}

/** kube-proxy was configured with another scheduler than rr, and every virtual server had it. */
export const schedulerChosen = onceNoted(
  'scheduler-chosen',
  otherScheduler,
  ({ snapshot, nodes, live }) => {
    const { scheduler } = configOf(snapshot).ipvs
    if (scheduler === DEFAULT_SCHEDULER && !live)
      throw new NotApplicable('every virtual server had rr when this capture was taken')
    expectThat(scheduler !== DEFAULT_SCHEDULER, {
      inspect: "kubectl -n kube-system get configmap kube-proxy -o yaml | grep 'scheduler:'",
      expected: "another scheduler than rr in kube-proxy's configuration",
      actual: 'rr, the default',
      next: 'make ipvs SCHEDULER=lc',
    })
    expectNodes(nodes)
      .virtualServers()
      .equalPrediction('ipvs', `${scheduler} on every virtual server`)
    return scheduler
  },
)

/** kube-ipvs0 is a dummy device, down and NOARP, and has every ClusterIP and no other address. */
export function dummyDeviceOwnsClusterIPs({ nodes }: CheckContext): void {
  const device = expectNodes(nodes).link(DEVICE)
  device.equalPrediction('ipvs', `every ClusterIP, and no other address, on ${DEVICE}`)
  device.hasNoFault(
    (link) => [
      link?.kind === undefined || link.kind === 'dummy' ? undefined : `it is of kind ${link.kind}`,
      link?.flags.includes('NOARP') ? undefined : 'it answers ARP (no NOARP flag)',
      link?.flags.includes('UP') ? 'it is UP' : undefined,
    ],
    `${DEVICE} as a dummy device, down and with NOARP`,
    {
      why: 'The device only holds addresses. If it took part in ARP, every node would claim every ClusterIP on the wire.',
      hint: `Run on that node: \`ip link set ${DEVICE} down arp off\`.`,
    },
  )
}

/** ipset and ipvsadm run on every node, and what ipt, ipv and ips list is there. */
export function toolsWork({ nodes, live }: CheckContext): void {
  expectNodes(nodes).run(OUTPUTS, 'ipset list -n; ipvsadm -Ln', { next: 'make tools' })
  // A capture may have been taken in another mode, which lists nothing of this one.
  if (!live) return
  for (const node of nodes) {
    const { iptables, ipsets } = stateOf(node)
    expectOnNode(
      node.name,
      'iptables -t nat -nvL KUBE-SERVICES',
      iptables.get('nat')?.has('KUBE-SERVICES') === true,
      { expected: 'the chain KUBE-SERVICES, which ipt lists', actual: 'no such chain' },
    )
    expectOnNode(node.name, 'ipset list KUBE-CLUSTER-IP', ipsets.has('KUBE-CLUSTER-IP'), {
      expected: 'the set KUBE-CLUSTER-IP, which ips lists',
      actual: 'no such set',
    })
  }
}
