import { isServiceChain } from '../../dataplane/kube-proxy/rule-text.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { modeOf, type NodeView, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { Part } from './terminal-text.ts'

/** What of one kind a node holds: lines by the place where they are. */
type Holdings = Map<string, Set<string>>

/** Places with no more changes than this show each of them. */
const SHOWN = 4

/** Everything on a node that decides what becomes of packets, without counters. */
function holdingsOf(state: NodeState, mode: string | undefined): Holdings {
  const holdings: Holdings = new Map()
  const add = (place: string, line: string) => holdings.set(place, (holdings.get(place) ?? new Set()).add(line))
  if (mode !== undefined) add('kube-proxy', `mode ${mode}`)
  for (const [table, chains] of state.iptables)
    for (const [chain, { rules }] of chains) {
      const place = isServiceChain(chain) ? `${table} chains of single Services and endpoints` : `${table} ${chain}`
      if (isServiceChain(chain)) add(place, `:${chain}`)
      for (const { spec } of rules) add(place, `-A ${chain} ${spec}`)
    }
  for (const [name, { members }] of state.ipsets) for (const member of members) add(`set ${name}`, member)
  for (const { protocol, address, port, scheduler, realServers } of state.virtualServers) {
    const server = `${protocol} ${address}:${port}`
    add('IPVS', `${server} ${scheduler}`)
    for (const real of realServers)
      add('IPVS', `${server} -> ${real.address}:${real.port} ${real.forward} ${real.weight}`)
  }
  for (const { name, addresses } of state.links)
    for (const { address, prefixLength } of addresses) add(`addresses of ${name}`, `${address}/${prefixLength}`)
  for (const { family, name, chains, maps } of state.nftables ?? []) {
    const place = `nftables ${family} ${name}`
    for (const [chain, { rules }] of chains) for (const { text } of rules) add(place, `${chain}: ${text}`)
    for (const [map, { elements }] of maps) for (const key of elements.keys()) add(`${place} ${map}`, key)
  }
  return holdings
}

/** Differences between two states of a node, a few lines for each place. */
function changesOf(before: Holdings, after: Holdings): string[] {
  const places = [...new Set([...before.keys(), ...after.keys()])].sort()
  return places.flatMap((place) => {
    const [was, is] = [before.get(place) ?? new Set(), after.get(place) ?? new Set()]
    const lines = [
      ...[...is].filter((line) => !was.has(line)).map((line) => `+ ${line}`),
      ...[...was].filter((line) => !is.has(line)).map((line) => `- ${line}`),
    ]
    if (lines.length === 0) return []
    const more = lines.filter((line) => line.startsWith('+')).length
    const head = `${place}: ${more} more, ${lines.length - more} less`
    return lines.length <= SHOWN ? [head, ...lines.map((line) => `  ${line}`)] : [head]
  })
}

const namesOf = ({ items }: Snapshot): Holdings =>
  new Map([
    [
      'objects',
      new Set(
        items
          .filter(({ kind }) => kind === 'Service' || kind === 'Pod')
          .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
      ),
    ],
  ])

/** What has changed in a cluster between two snapshots; nodes that changed in the same way share one list. */
export function diffSnapshots(before: Snapshot, after: Snapshot): Part[] {
  const read = (node: NodeView | undefined) => (node ? holdingsOf(stateOf(node), modeOf(node)) : new Map())
  const byText = new Map<string, string[]>()
  for (const node of after.nodes) {
    const text = changesOf(read(before.nodes.find(({ name }) => name === node.name)), read(node)).join('\n')
    if (text !== '') byText.set(text, [...(byText.get(text) ?? []), node.name])
  }
  const objects = changesOf(namesOf(before), namesOf(after)).join('\n')
  const lists: [string, string][] = [...byText].map(([text, nodes]) => [
    nodes.length === after.nodes.length ? 'every node' : nodes.join(', '),
    text,
  ])
  if (objects !== '') lists.unshift(['Kubernetes', objects])
  if (lists.length === 0) return [{ text: 'Nothing has changed on the nodes since this step began.' }]
  return lists.flatMap(([where, text]) => [
    { text: where },
    ...text.split('\n').map((line): Part => ({ text: `  ${line}`, whole: true })),
    { text: '' },
  ])
}
