import { printIpAddr } from '../../dataplane/ip-addr.ts'
import { printIpsetSave } from '../../dataplane/ipset-save.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'
import { printIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import { inKernelOrder } from '../../dataplane/kube-proxy/ruleset-builder.ts'
import { type NftTable, printNftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { plainJson } from '../../host/plain-text.ts'
import type { Format } from './arguments.ts'

/** Maps and sets as objects and lists. */
function toJson(state: NodeState): unknown {
  const iptables = Object.fromEntries(
    [...inKernelOrder(state.iptables)].map(([table, chains]) => [
      table,
      Object.fromEntries(
        [...chains].map(([name, chain]) => [
          name,
          { policy: chain.policy, rules: chain.rules.map((rule) => rule.spec) },
        ]),
      ),
    ]),
  )
  const ipsets = Object.fromEntries(
    [...state.ipsets].map(([name, { type, options, members }]) => [name, { type, options, members: [...members] }]),
  )
  const nftables = state.nftables && { nftables: state.nftables.map(tableToJson) }
  return { iptables, ipsets, virtualServers: state.virtualServers, links: state.links, ...nftables }
}

const tableToJson = ({ family, name, chains, sets, maps }: NftTable) => ({
  family,
  name,
  chains: Object.fromEntries(chains),
  sets: Object.fromEntries(
    [...sets].map(([set, { elements, ...rest }]) => [set, { ...rest, elements: [...elements] }]),
  ),
  maps: Object.fromEntries(
    [...maps].map(([map, { type, elements }]) => [map, { type, elements: Object.fromEntries(elements) }]),
  ),
})

/** A state as the tool of that name prints it, or all of it as JSON. */
export function printState(state: NodeState, format: Format): string {
  if (format === 'iptables-save') return printIptablesSave(inKernelOrder(state.iptables))
  if (format === 'ipset-save') return printIpsetSave(state.ipsets)
  if (format === 'ipvsadm-save') return printIpvsadmSave(state.virtualServers)
  if (format === 'nft') return (state.nftables ?? []).map(printNftTable).join('\n')
  const text = format === 'ip-addr' ? printIpAddr(state.links) : plainJson(toJson(state))
  return text.endsWith('\n') ? text : `${text}\n`
}
