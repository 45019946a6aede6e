import { canonicalAddress, printEndpoint } from '../ip-address.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import { isServicePortChain } from '../kube-proxy/nftables/builder.ts'
import { KUBE_PROXY_TABLE } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import type { Trace } from '../trace.ts'
import type { Packet } from './flow.ts'

/** The missing continuation in chains of a Service port or endpoint, by chain prefix. */
const SOUGHT: Record<string, string> = {
  'KUBE-SVC': 'no endpoint chain',
  'KUBE-SVL': 'no endpoint chain',
  'KUBE-XLB': 'no endpoint chain',
  'KUBE-EXT': 'no chain with endpoints',
  'KUBE-FW': 'no chain with endpoints',
  'KUBE-SEP': 'no rule that translates it',
}

const missingIn = (chain: string): string | undefined =>
  SOUGHT[chain.slice(0, chain.lastIndexOf('-'))]

/**
 * Where a packet to a Service stopped, as a predicate after "the packet"; undefined if it was
 * translated. An untranslated packet stopped in the innermost chain of a Service that it reached,
 * before IPVS, or before KUBE-SERVICES.
 * @param at words that name the node, such as ` on k8s-guide-worker`, or none
 */
export function stoppingPlace(
  trace: Trace,
  { destination, port, protocol }: Packet,
  { links, nftables = [] }: Pick<NodeState, 'links' | 'nftables'>,
  at = '',
): string | undefined {
  const [stop] = trace.lost
  if (stop && trace.outcomes.length === 0) {
    if (stop.table !== 'ipvs')
      return `is ${stop.verdict === 'reject' ? 'rejected' : 'dropped'}${at} by ${stop.table} ${stop.chain}: ${stop.rule}`
    return `reaches the virtual server ${stop.chain}${at} and finds ${stop.reason.split(':')[0]}`
  }
  if (trace.verdict !== 'accept') return undefined
  const chains = trace.steps
    .filter(({ table }) => table === 'nat')
    .flatMap(({ target }) => target ?? [])
  const innermost = chains.findLast((chain) => missingIn(chain) !== undefined)
  if (innermost) return `reaches ${innermost}${at} and finds ${missingIn(innermost)}`
  const service = `${protocol.toUpperCase()} ${printEndpoint(destination, port)}`
  if (links.some(({ name }) => name === DUMMY_LINK)) {
    const isOwn = links.some(({ addresses }) =>
      addresses.some(({ address }) => canonicalAddress(address) === canonicalAddress(destination)),
    )
    if (!isOwn) return `never reaches IPVS${at}: ${destination} is not an address of kube-ipvs0`
    return `reaches IPVS${at} and finds no virtual server ${service}`
  }
  if (chains.includes('KUBE-SERVICES'))
    return `reaches KUBE-SERVICES${at} and finds no rule for ${service}`
  const family = destination.includes(':') ? 'ip6' : 'ip'
  if (nftables.some((table) => table.name === KUBE_PROXY_TABLE && table.family === family))
    return stoppingChain(trace, `${family} ${KUBE_PROXY_TABLE}`, service, at)
  return `never reaches KUBE-SERVICES${at}: no jump leads there`
}

/** The same for kube-proxy's nf_tables table. */
function stoppingChain({ steps }: Trace, title: string, service: string, at: string): string {
  const chains = steps.filter(({ table }) => table === title).flatMap(({ target }) => target ?? [])
  const innermost = chains.findLast(isServicePortChain)
  if (innermost) return `reaches ${innermost}${at} and finds no rule that translates it`
  if (chains.includes('services'))
    return `reaches the chain services${at} and finds no element for ${service}`
  return `never reaches the chain services of table ${title}${at}: no jump leads there`
}
