import { isLoopbackAddress } from '../../ip-address.ts'
import { writtenSetText } from '../../nft-addresses.ts'
import type { ProxierInput } from '../proxier.ts'
import type { NftTableBuilder } from './builder.ts'

const DSTNAT = -100
const SRCNAT = 100
const FILTER = 0

/** Comment of the rule that drops packets to unallocated addresses of the ServiceCIDRs. */
export const DROPS_UNALLOCATED = 'Drop traffic to unallocated ClusterIPs'

type Base = readonly [
  name: string,
  type: string,
  hook: string,
  priority: number,
  rules: readonly string[],
]

const NAT: readonly Base[] = [
  ['nat-prerouting', 'nat', 'prerouting', DSTNAT, ['jump services']],
  ['nat-output', 'nat', 'output', DSTNAT, ['jump services']],
  ['nat-postrouting', 'nat', 'postrouting', SRCNAT, ['jump masquerading']],
]

const NEW = 'ct state new jump'
const INPUT_CHECKS = [`${NEW} nodeport-endpoints-check`, `${NEW} service-endpoints-check`]

/** Until 1.33.5 all filter chains except one run before the destination is translated. */
const EARLY_FILTERS: readonly Base[] = [
  ['filter-prerouting', 'filter', 'prerouting', DSTNAT - 10, [`${NEW} firewall-check`]],
  ['filter-input', 'filter', 'input', DSTNAT - 10, INPUT_CHECKS],
  [
    'filter-forward',
    'filter',
    'forward',
    DSTNAT - 10,
    [`${NEW} service-endpoints-check`, `${NEW} cluster-ips-check`],
  ],
  [
    'filter-output',
    'filter',
    'output',
    DSTNAT - 10,
    [`${NEW} service-endpoints-check`, `${NEW} firewall-check`],
  ],
  ['filter-output-post-dnat', 'filter', 'output', DSTNAT + 10, [`${NEW} cluster-ips-check`]],
]

/**
 * Since then only source ranges are checked before, because external policies must not apply to
 * traffic of the node itself (#131765).
 */
const LATE_FILTERS: readonly Base[] = [
  ['filter-prerouting-pre-dnat', 'filter', 'prerouting', DSTNAT - 10, [`${NEW} firewall-check`]],
  ['filter-output-pre-dnat', 'filter', 'output', DSTNAT - 10, [`${NEW} firewall-check`]],
  ['filter-input', 'filter', 'input', FILTER, INPUT_CHECKS],
  [
    'filter-forward',
    'filter',
    'forward',
    FILTER,
    [`${NEW} service-endpoints-check`, `${NEW} cluster-ips-check`],
  ],
  [
    'filter-output',
    'filter',
    'output',
    FILTER,
    [`${NEW} service-endpoints-check`, `${NEW} cluster-ips-check`],
  ],
]

const mark = (value: number): string => `0x${value.toString(16).padStart(8, '0')}`

/** The statement that requests masquerading, in versions without a chain for it. */
const setMark = ({ config }: ProxierInput): string =>
  `meta mark set meta mark | ${mark(2 ** config.nftables.masqueradeBit)}`

/**
 * The request for masquerading in a rule: a jump to mark-for-masquerade, since 1.36 a statement in
 * each rule.
 */
export const markForMasquerade = ({ proxier }: NftTableBuilder): string =>
  proxier.features.nftHairpinSet ? setMark(proxier) : 'jump mark-for-masquerade'

/**
 * The condition that a packet comes from a Pod, or does not; undefined if kube-proxy cannot
 * distinguish them.
 */
export function sourceCondition(
  { proxier, ip }: NftTableBuilder,
  not: '' | '!= ' = '',
): string | undefined {
  const { detector, features } = proxier
  if (!detector) return undefined
  if (detector.range !== undefined) return `${ip} saddr ${not}${detector.range}`
  return `${features.nftInterfaceName ? 'iifname' : 'iif'} ${not}"${detector.device?.replace(/\+$/, '*')}"`
}

/**
 * The condition for senders to a ClusterIP that are masqueraded: all, those outside the Pod
 * network, or none (undefined).
 */
export const masqueradedSenders = (builder: NftTableBuilder): string | undefined =>
  builder.proxier.config.nftables.masqueradeAll ? '' : sourceCondition(builder, '!= ')

function writeMasquerading(builder: NftTableBuilder): void {
  const { proxier, ip, address } = builder
  const bit = mark(2 ** proxier.config.nftables.masqueradeBit)
  builder.chain('masquerading')
  if (!proxier.features.nftHairpinSet) {
    builder.rule('mark-for-masquerade', setMark(proxier))
    builder.rule('masquerading', `meta mark & ${bit} == ${mark(0)} return`)
    builder.rule('masquerading', `meta mark set meta mark ^ ${bit}`)
    builder.rule('masquerading', 'masquerade fully-random')
    return
  }
  builder.set('hairpin-connections', `${address} . ${address} . inet_proto . inet_service`)
  builder.rule(
    'masquerading',
    `meta mark & ${bit} != ${mark(0)} meta mark set meta mark ^ ${bit} masquerade fully-random`,
  )
  const same = `${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections`
  builder.rule('masquerading', `ct status dnat ${same} masquerade fully-random`)
}

/** The sets and maps that the rules look up destinations in. */
function declareDestinations(builder: NftTableBuilder): void {
  const { proxier, address } = builder
  builder.set('cluster-ips', address)
  if (!proxier.nodePortAddresses.all) {
    builder.set('nodeport-ips', address)
    for (const own of proxier.nodePortAddresses.addresses)
      if (!isLoopbackAddress(own)) builder.member('nodeport-ips', own)
  }
  const addressKey = `${address} . inet_proto . inet_service`
  for (const map of ['service-ips', 'no-endpoint-services', 'firewall-ips'])
    builder.map(map, addressKey)
  for (const map of ['service-nodeports', 'no-endpoint-nodeports'])
    builder.map(map, 'inet_proto . inet_service')
}

/** Since 1.36 packets to all ClusterIPs are marked in one rule. */
function writeMasqueradeOfClusterIPs(builder: NftTableBuilder): void {
  const { proxier, ip } = builder
  const senders = masqueradedSenders(builder)
  if (!proxier.features.nftHairpinSet || senders === undefined) return
  builder.rule(
    'services',
    `${ip} daddr @cluster-ips ${senders ? `${senders} ` : ''}${setMark(proxier)}`,
    senders
      ? 'masquerade clusterIP traffic from outside cluster'
      : 'masquerade all clusterIP traffic',
  )
}

function writeDispatch(builder: NftTableBuilder): void {
  const { proxier, ip, table } = builder
  const byAddress = `${ip} daddr . meta l4proto . th dport vmap`
  const byPort = 'meta l4proto . th dport vmap'
  const all = proxier.nodePortAddresses.all
  const notLoopback = `${ip} daddr != ${table.family === 'ip' ? '127.0.0.0/8' : '::1'}`
  const toNodePorts = all ? notLoopback : `${ip} daddr @nodeport-ips`

  declareDestinations(builder)
  builder.chain('services')
  writeMasqueradeOfClusterIPs(builder)
  builder.rule('services', `${byAddress} @service-ips`)
  builder.rule(
    'services',
    `${all ? `fib daddr type local ${notLoopback}` : toNodePorts} ${byPort} @service-nodeports`,
  )
  builder.rule('service-endpoints-check', `${byAddress} @no-endpoint-services`)
  builder.rule('nodeport-endpoints-check', `${toNodePorts} ${byPort} @no-endpoint-nodeports`)
  builder.rule('firewall-check', `${byAddress} @firewall-ips`)
  builder.rule(
    'cluster-ips-check',
    `${ip} daddr @cluster-ips reject`,
    'Reject traffic to invalid ports of ClusterIPs',
  )
  const { serviceCIDRs } = proxier
  if (proxier.features.nftDropsUnallocated && serviceCIDRs.length > 0)
    builder.rule(
      'cluster-ips-check',
      `${ip} daddr ${writtenSetText(serviceCIDRs)} drop`,
      DROPS_UNALLOCATED,
    )
  builder.rule('reject-chain', 'reject')
}

/**
 * Writes the part of the table that does not depend on Services (setupNFTables of
 * pkg/proxy/nftables/proxier.go).
 */
export function writeStaticChains(builder: NftTableBuilder): void {
  const filters = builder.proxier.features.nftLateFilters ? LATE_FILTERS : EARLY_FILTERS
  for (const [name, type, hook, priority, rules] of [...filters, ...NAT]) {
    builder.chain(name, { type, hook, priority })
    for (const rule of rules) builder.rule(name, rule)
  }
  writeDispatch(builder)
  writeMasquerading(builder)
}
