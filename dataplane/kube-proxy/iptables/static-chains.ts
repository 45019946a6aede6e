import { asHost, isLoopbackAddress, loopbackRange } from '../../ip-address.ts'
import type { Ruleset } from '../../iptables-save.ts'
import type { OriginRecorder } from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import { commented, masqueradeMark } from '../rule-text.ts'
import { ruleset, TableBuilder } from '../ruleset-builder.ts'
import { writeExternalServicePort } from './external-chains.ts'
import { writeXlbServicePort } from './xlb-chains.ts'

/** The jumps of iptables mode in the order in which kube-proxy creates them. */
function writeJumps(nat: TableBuilder, filter: TableBuilder, { features }: ProxierInput): void {
  const external = 'kubernetes externally-visible service portals'
  const portals = 'kubernetes service portals'
  const toNew = (from: string, to: string, comment: string) =>
    filter.jump(from, to, comment, '-m conntrack --ctstate NEW ')
  for (const from of ['INPUT', 'FORWARD']) toNew(from, 'KUBE-EXTERNAL-SERVICES', external)
  if (features.healthCheckRules)
    filter.jump('INPUT', 'KUBE-NODEPORTS', 'kubernetes health check service ports')
  for (const from of ['FORWARD', 'OUTPUT']) toNew(from, 'KUBE-SERVICES', portals)
  filter.jump('FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules')
  if (features.dropsIn === 'filter')
    for (const from of ['INPUT', 'OUTPUT', 'FORWARD'])
      toNew(from, 'KUBE-PROXY-FIREWALL', 'kubernetes load balancer firewall')
  for (const from of ['OUTPUT', 'PREROUTING']) nat.jump(from, 'KUBE-SERVICES', portals)
  nat.jump('POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules')
  if (features.kubeFirewall)
    for (const from of ['INPUT', 'OUTPUT']) filter.jump(from, 'KUBE-FIREWALL')
}

/** KUBE-MARK-MASQ and KUBE-POSTROUTING, the same in iptables and ipvs mode. */
export function writeMasquerade(nat: TableBuilder, { config }: Pick<ProxierInput, 'config'>): void {
  const { hex, mark } = masqueradeMark(config)
  nat.add('KUBE-POSTROUTING', `-m mark ! --mark ${mark} -j RETURN`)
  nat.add('KUBE-POSTROUTING', `-j MARK --set-xmark ${hex}/0x0`)
  const snat = commented('kubernetes service traffic requiring SNAT')
  nat.add('KUBE-POSTROUTING', `${snat}-j MASQUERADE --random-fully`)
  nat.add('KUBE-MARK-MASQ', `-j MARK --set-xmark ${mark}`)
}

/** The ACCEPT rules of KUBE-FORWARD, the same in iptables and ipvs mode. */
export function writeForwardAccepts(
  filter: TableBuilder,
  { config, features }: Pick<ProxierInput, 'config' | 'features'>,
): void {
  const established = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'
  const { mark } = masqueradeMark(config)
  filter.add(
    'KUBE-FORWARD',
    `${commented('kubernetes forwarding rules')}-m mark --mark ${mark} -j ACCEPT`,
  )
  const comments = features.singleConntrackRule
    ? ['kubernetes forwarding conntrack rule']
    : [
        'kubernetes forwarding conntrack pod source rule',
        'kubernetes forwarding conntrack pod destination rule',
      ]
  for (const comment of comments) filter.add('KUBE-FORWARD', `${commented(comment)}${established}`)
}

function writeServiceChains(nat: TableBuilder, filter: TableBuilder, proxier: ProxierInput): void {
  const { config, features } = proxier
  nat.chain('KUBE-NODEPORTS')
  if (features.dropsIn === 'nat') nat.chain('KUBE-MARK-DROP')
  writeMasquerade(nat, proxier)
  if (features.kubeFirewall && proxier.localhostNodePorts)
    filter.add(
      'KUBE-FIREWALL',
      '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    )
  if (!(features.liberalConntrack && config.conntrackTCPLiberal)) {
    // iptables-save prints two spaces before the name.
    const counter =
      features.nfacct && config.nfacct
        ? '-m nfacct --nfacct-name  ct_state_invalid_dropped_pkts '
        : ''
    filter.add('KUBE-FORWARD', `-m conntrack --ctstate INVALID ${counter}-j DROP`)
  }
  writeForwardAccepts(filter, proxier)
}

/**
 * The last rules of nat KUBE-SERVICES: packets that match no Service address may be for a node
 * port.
 */
function writeNodePortsTail(nat: TableBuilder, proxier: ProxierInput): void {
  const { features, family, nodePortAddresses } = proxier
  const noLoopback = features.localhostNodePorts && !proxier.localhostNodePorts
  const comment = commented(
    'kubernetes service nodeports; NOTE: this must be the last rule in this chain',
  )
  if (nodePortAddresses.all) {
    const except = noLoopback ? `! -d ${loopbackRange(family)} ` : ''
    nat.add('KUBE-SERVICES', `${except}${comment}-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`)
    return
  }
  for (const address of nodePortAddresses.addresses) {
    if (isLoopbackAddress(address) && noLoopback) continue
    nat.add('KUBE-SERVICES', `-d ${asHost(address)} ${comment}-j KUBE-NODEPORTS`)
  }
}

/** The complete ruleset of kube-proxy's iptables mode for one family. */
export function iptablesRuleset(proxier: ProxierInput, origins?: OriginRecorder): Ruleset {
  const filter = new TableBuilder('filter', origins)
  const mangle = new TableBuilder('mangle')
  const nat = new TableBuilder('nat', origins)
  // kube-proxy detects that the tables were flushed if one of these three empty chains is missing.
  for (const table of [filter, mangle, nat]) table.chain('KUBE-PROXY-CANARY')
  writeJumps(nat, filter, proxier)
  writeServiceChains(nat, filter, proxier)
  const writePort =
    proxier.features.serviceChains === 'external' ? writeExternalServicePort : writeXlbServicePort
  for (const port of proxier.ports) {
    origins?.begin(port)
    writePort({ nat, filter, proxier, port })
  }
  writeNodePortsTail(nat, proxier)
  return ruleset({ filter, mangle, nat })
}
