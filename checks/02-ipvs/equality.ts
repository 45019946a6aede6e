import { targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { inChain, inSet, mustEqualPrediction, onNode } from '../../grading/difference-report.ts'
import { configOf } from '../../grading/evaluate.ts'
import { fail } from '../../grading/failure.ts'
import { mustJumpFirst } from '../../grading/jump-order.ts'

/** All sets but KUBE-LOOP-BACK equal the API, and KUBE-SERVICES asks KUBE-CLUSTER-IP. */
export function setsEqualServices({ nodes }: CheckContext): void {
  for (const { name, state } of nodes) {
    const rules = state.iptables.get('nat')?.get('KUBE-SERVICES')?.rules ?? []
    if (rules.some(({ spec }) => spec.includes('--match-set KUBE-CLUSTER-IP dst,dst'))) continue
    fail({
      node: name,
      look: onNode(name, 'iptables -t nat -S KUBE-SERVICES'),
      expected: 'rules of KUBE-SERVICES that ask the set KUBE-CLUSTER-IP for destination and port',
      actual: 'no rule with --match-set KUBE-CLUSTER-IP dst,dst',
      differences: [
        {
          kind: 'missing',
          text: 'no rule asks the set',
          expected: '-A KUBE-SERVICES … -m set --match-set KUBE-CLUSTER-IP dst,dst …',
        },
      ],
    })
  }
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where) => 'set' in where && !inSet('KUBE-LOOP-BACK', 'KUBE-6-LOOP-BACK')(where),
    look: 'ipset list KUBE-CLUSTER-IP',
    expected: 'exactly the ClusterIPs and ports of all Services as members',
  })
}

/** PREROUTING begins with KUBE-SERVICES, and the chain and those that it calls are exactly what they must be. */
export function preroutingLeadsToServices({ nodes }: CheckContext): void {
  mustJumpFirst(nodes, 'PREROUTING', 'KUBE-SERVICES')
  const isEntrance = inChain(
    'nat KUBE-SERVICES',
    'nat KUBE-NODE-PORT',
    'nat KUBE-LOAD-BALANCER',
    'nat KUBE-FIREWALL',
    'nat PREROUTING',
  )
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where, { interferes }) => isEntrance(where) || (interferes === true && 'chain' in where),
    look: 'iptables -t nat -nvL KUBE-SERVICES',
    expected:
      'the rules of KUBE-SERVICES, and no others, in their order, and no rule of others that takes Service packets',
  })
}

/** OUTPUT begins with KUBE-SERVICES, and KUBE-MARK-MASQ sets the mark. */
export function outputLeadsToMark({ snapshot, nodes }: CheckContext): void {
  mustJumpFirst(nodes, 'OUTPUT', 'KUBE-SERVICES')
  const mark = `0x${(2 ** configOf(snapshot).masqueradeBit).toString(16)}`
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: inChain('nat KUBE-MARK-MASQ', 'nat OUTPUT'),
    look: 'iptables -t nat -nvL KUBE-MARK-MASQ',
    expected: `one rule in KUBE-MARK-MASQ that sets the mark ${mark}`,
  })
  for (const { name, state } of nodes) {
    const rule = state.iptables.get('nat')?.get('KUBE-MARK-MASQ')?.rules[0]
    if (rule && targetOf(rule.spec) === 'MARK' && rule.spec.includes(`${mark}/${mark}`)) continue
    fail({
      node: name,
      look: onNode(name, 'iptables -t nat -S KUBE-MARK-MASQ'),
      expected: `-A KUBE-MARK-MASQ -j MARK --set-xmark ${mark}/${mark}`,
      actual: rule ? `-A KUBE-MARK-MASQ ${rule.spec}` : 'an empty chain',
    })
  }
}

/** POSTROUTING begins with KUBE-POSTROUTING, whose rules and hairpin set are exactly what they must be on this node. */
export function postroutingMasquerades({ nodes }: CheckContext): void {
  mustJumpFirst(nodes, 'POSTROUTING', 'KUBE-POSTROUTING')
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: inChain('nat KUBE-POSTROUTING', 'nat POSTROUTING'),
    look: 'iptables -t nat -nvL KUBE-POSTROUTING',
    expected: 'the four rules: hairpin masquerade, return unless marked, clear the mark, masquerade',
  })
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: inSet('KUBE-LOOP-BACK', 'KUBE-6-LOOP-BACK'),
    look: 'ipset list KUBE-LOOP-BACK',
    expected: "exactly this node's endpoints as ip,proto:port,ip",
  })
}

/** Virtual servers equal Services, real servers equal ready endpoints; scheduler, method and weight included. */
export function virtualServersEqualServices({ snapshot, nodes }: CheckContext): void {
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where, { interferes }) => 'virtualServer' in where || (interferes === true && 'link' in where),
    look: 'ipvsadm -Ln',
    expected: `a virtual server for each Service port, ${configOf(snapshot).ipvs.scheduler}, each ready Pod behind it as Masq with weight 1`,
  })
}
