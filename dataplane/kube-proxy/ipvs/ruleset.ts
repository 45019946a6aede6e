import { asHost, loopbackRange } from '../../ip-address.ts'
import type { Ruleset } from '../../iptables-save.ts'
import { writeForwardAccepts, writeMasquerade } from '../iptables/static-chains.ts'
import type { OriginRecorder } from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import { ANY_SENDER, commented, localSender, rejectTarget, type SenderMatch } from '../rule-text.ts'
import { ruleset, TableBuilder } from '../ruleset-builder.ts'
import { type SetName, setComment, setName } from './sets.ts'
import type { IpvsState } from './state.ts'

const PROTOCOL_NUMBER = { tcp: 6, udp: 17, sctp: 132 } as const

/** The jumps of ipvs mode in the order in which kube-proxy creates them. */
function writeJumps({ nat, filter, proxier: { features } }: SetRules): void {
  for (const from of ['OUTPUT', 'PREROUTING'])
    nat.jump(from, 'KUBE-SERVICES', 'kubernetes service portals')
  nat.jump('POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules')
  filter.jump('FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules')
  if (features.ipvsHealthCheck)
    filter.jump('INPUT', 'KUBE-NODE-PORT', 'kubernetes health check rules')
  if (features.dropsIn === 'filter')
    for (const from of ['INPUT', 'FORWARD'])
      filter.jump(from, 'KUBE-PROXY-FIREWALL', 'kube-proxy firewall rules')
  if (features.ipvsFilter) filter.jump('INPUT', 'KUBE-IPVS-FILTER', 'kubernetes ipvs access filter')
  if (features.ipvsOutFilter)
    filter.jump('OUTPUT', 'KUBE-IPVS-OUT-FILTER', 'kubernetes ipvs access filter')
}

class SetRules {
  readonly nat: TableBuilder
  readonly filter: TableBuilder
  readonly proxier: ProxierInput
  readonly state: IpvsState

  constructor(proxier: ProxierInput, state: IpvsState, origins?: OriginRecorder) {
    this.nat = new TableBuilder('nat', origins)
    this.filter = new TableBuilder('filter', origins)
    this.proxier = proxier
    this.state = state
  }

  match(set: SetName, direction: string): string {
    return `-m set --match-set ${setName(set, this.proxier.family)} ${direction} `
  }

  commented(set: SetName, direction: string): string {
    return `${commented(setComment(set))}${this.match(set, direction)}`
  }

  /** Adds a rule that exists only while its set has members. */
  addIfUsed(
    table: TableBuilder,
    chain: string,
    set: SetName,
    direction: string,
    target: string,
    protocol = '',
  ): void {
    const to = protocol === '' ? '' : `-p ${protocol} `
    this.addForSet(table, chain, set, `${to}${this.commented(set, direction)}-j ${target}`)
  }

  /** The same for a rule that is complete. */
  addForSet(table: TableBuilder, chain: string, set: SetName, spec: string): void {
    if (!this.state.sets.isUsed(set)) return
    table.addOf(chain, spec, this.state.sets.originsOfUse(set))
  }
}

function writeSourceRanges(rules: SetRules): void {
  const { nat, filter, proxier } = rules
  const inFilter = proxier.features.dropsIn === 'filter'
  const table = inFilter ? filter : nat
  const firewall = inFilter ? 'KUBE-SOURCE-RANGES-FIREWALL' : 'KUBE-FIREWALL'
  const entryChain = inFilter ? 'KUBE-PROXY-FIREWALL' : 'KUBE-LOAD-BALANCER'
  rules.addIfUsed(table, entryChain, 'KUBE-LOAD-BALANCER-FW', 'dst,dst', firewall)
  rules.addIfUsed(table, firewall, 'KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src', 'RETURN')
  rules.addIfUsed(table, firewall, 'KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src', 'RETURN')
  table.add(firewall, inFilter ? '-j DROP' : '-j KUBE-MARK-DROP')
}

function writeNodePorts(rules: SetRules): void {
  const { nat, proxier } = rules
  const add = (protocol: string, set: SetName, direction: string, target: string) =>
    rules.addIfUsed(nat, 'KUBE-NODE-PORT', set, direction, target, protocol)
  for (const [protocol, Protocol] of [
    ['tcp', 'TCP'],
    ['udp', 'UDP'],
  ] as const) {
    add(protocol, `KUBE-NODE-PORT-LOCAL-${Protocol}`, 'dst', 'RETURN')
    add(protocol, `KUBE-NODE-PORT-${Protocol}`, 'dst', 'KUBE-MARK-MASQ')
  }
  const swapped = proxier.features.ipvsSctpRulesSwapped
  const local = () => add('sctp', 'KUBE-NODE-PORT-LOCAL-SCTP-HASH', 'dst,dst', 'RETURN')
  if (!swapped) local()
  add('sctp', 'KUBE-NODE-PORT-SCTP-HASH', 'dst,dst', 'KUBE-MARK-MASQ')
  if (swapped) local()
}

function writeClusterIPMasquerade(rules: SetRules): void {
  const { nat, proxier } = rules
  const { config, detector } = proxier
  const add = (sender: SenderMatch, direction: string) =>
    rules.addForSet(
      nat,
      'KUBE-SERVICES',
      'KUBE-CLUSTER-IP',
      `${sender.source}${sender.incoming}${rules.commented('KUBE-CLUSTER-IP', direction)}-j KUBE-MARK-MASQ`,
    )
  if (config.masqueradeAll) add(ANY_SENDER, 'dst,dst')
  else if (detector) add(localSender(detector, '! '), 'dst,dst')
  // A connection from the node itself has the ClusterIP as its source, because it is an address of
  // kube-ipvs0.
  else add(ANY_SENDER, 'src,dst')
}

function writeExternalIPs(rules: SetRules, set: SetName, masquerade: boolean): void {
  const match = rules.commented(set, 'dst,dst')
  const add = (rest: string) => rules.addForSet(rules.nat, 'KUBE-SERVICES', set, `${match}${rest}`)
  if (masquerade) add('-j KUBE-MARK-MASQ')
  add('-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT')
  add('-m addrtype --dst-type LOCAL -j ACCEPT')
}

function writeServices(rules: SetRules): void {
  const { nat, proxier } = rules
  if (proxier.features.ipvsFilter)
    nat.add('KUBE-SERVICES', `-s ${loopbackRange(proxier.family)} -j RETURN`)
  rules.addIfUsed(nat, 'KUBE-SERVICES', 'KUBE-LOAD-BALANCER', 'dst,dst', 'KUBE-LOAD-BALANCER')
  writeClusterIPMasquerade(rules)
  writeExternalIPs(rules, 'KUBE-EXTERNAL-IP', true)
  writeExternalIPs(rules, 'KUBE-EXTERNAL-IP-LOCAL', false)
  nat.add('KUBE-SERVICES', '-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT')
  for (const set of ['KUBE-CLUSTER-IP', 'KUBE-LOAD-BALANCER'] as const)
    rules.addForSet(nat, 'KUBE-SERVICES', set, `${rules.match(set, 'dst,dst')}-j ACCEPT`)
}

/**
 * Packets to an address of kube-ipvs0 that match no Service port must not reach listeners of the
 * node.
 */
function writeAccessFilter(rules: SetRules): void {
  const { filter, proxier, state } = rules
  const { features, family } = proxier
  if (features.ipvsFilter) {
    const pass: SetName[] = ['KUBE-LOAD-BALANCER', 'KUBE-CLUSTER-IP', 'KUBE-EXTERNAL-IP']
    if (features.ipvsFilterExternalLocal) pass.push('KUBE-EXTERNAL-IP-LOCAL')
    for (const set of pass)
      filter.add('KUBE-IPVS-FILTER', `${rules.match(set, 'dst,dst')}-j RETURN`)
    if (features.ipvsFilterHealthCheck)
      filter.add(
        'KUBE-IPVS-FILTER',
        `${rules.match('KUBE-HEALTH-CHECK-NODE-PORT', 'dst')}-j RETURN`,
      )
    filter.add(
      'KUBE-IPVS-FILTER',
      `-m conntrack --ctstate NEW ${rules.match('KUBE-IPVS-IPS', 'dst')}-j ${rejectTarget(family)}`,
    )
  }
  if (features.ipvsOutFilter)
    for (const { address, port, from } of state.blocked) {
      const protocol = PROTOCOL_NUMBER[port.protocol]
      const server = `--vproto ${protocol} --vaddr ${address} --vport ${port.port}`
      filter.addOf('KUBE-IPVS-OUT-FILTER', `-s ${asHost(address)} -m ipvs ${server} -j DROP`, [
        { port, from },
      ])
    }
}

/**
 * The iptables rules of ipvs mode in one family: a small number that does not depend on the
 * Services, because they match against sets.
 */
export function ipvsRuleset(
  proxier: ProxierInput,
  state: IpvsState,
  origins?: OriginRecorder,
): Ruleset {
  const { features } = proxier
  const rules = new SetRules(proxier, state, origins)
  const { nat, filter } = rules
  for (const chain of ['KUBE-LOAD-BALANCER', 'KUBE-NODE-PORT']) nat.chain(chain)
  if (features.dropsIn === 'nat') nat.chain('KUBE-MARK-DROP')
  writeJumps(rules)
  rules.addIfUsed(nat, 'KUBE-POSTROUTING', 'KUBE-LOOP-BACK', 'dst,dst,src', 'MASQUERADE')
  writeSourceRanges(rules)
  rules.addIfUsed(nat, 'KUBE-LOAD-BALANCER', 'KUBE-LOAD-BALANCER-LOCAL', 'dst,dst', 'RETURN')
  nat.add('KUBE-LOAD-BALANCER', '-j KUBE-MARK-MASQ')
  writeServices(rules)
  writeNodePorts(rules)
  writeAccessFilter(rules)
  if (features.ipvsHealthCheck)
    filter.add(
      'KUBE-NODE-PORT',
      `${rules.commented('KUBE-HEALTH-CHECK-NODE-PORT', 'dst')}-j ACCEPT`,
    )
  writeForwardAccepts(filter, proxier)
  writeMasquerade(nat, proxier)
  return ruleset({ filter, nat })
}
