import { idOf } from '../entry-id.ts'
import { printEndpoint } from '../ip-address.ts'
import { type LiveConnections, virtualServerKey } from '../ipvsadm-save.ts'
import { type NftChain, type NftTable, nftRuleLine, nftTitle } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import { normaliseSpec, targetOf } from '../rule.ts'

/**
 * What a node holds, as a tree that can be sent as JSON. Ids are stable from one snapshot to the
 * next and unique on a node.
 */
export interface NodeHoldings {
  node: string
  /** The mode that its kube-proxy reports. */
  mode?: string
  /** Why the node could not be read; then `groups` is what was last known of it, or empty. */
  trouble?: string
  groups: Entry[]
}

export type EntryKind =
  | 'group'
  | 'table'
  | 'chain'
  | 'rule'
  | 'set'
  | 'member'
  | 'virtual server'
  | 'real server'
  | 'link'
  | 'address'
  | 'map'
  | 'element'

export interface Entry {
  /**
   * Such as `iptables/nat/KUBE-SERVICES`; a rule's id contains its text and not its line number.
   */
  id: string
  kind: EntryKind
  /** As the node's own tool prints it. */
  text: string
  /** The ids of the chains that a rule jumps or goes to, and of the sets and maps that it uses. */
  refersTo?: string[]
  packets?: number
  /** Live connections of a virtual or real server. */
  connections?: { active: number; inactive: number }
  children?: Entry[]
}

/**
 * What a node holds, read or predicted; groups that hold nothing are left out.
 * @param known the mode that its kube-proxy reports, and the live connections that IPVS counts
 * (parseIpvsadmList)
 */
export function holdingsOf(
  node: string,
  state: NodeState,
  { mode, connections }: { mode?: string | undefined; connections?: LiveConnections } = {},
): NodeHoldings {
  const { nftables = [], foreignNftables = [] } = state
  const tables = [...nftables, ...foreignNftables].map((table) => nftTableEntry(table, true))
  const groups = [
    group('iptables', iptablesEntries(state, true)),
    group('ipset', ipsetEntries(state)),
    group('ipvs', ipvsEntries(state, connections)),
    group('nftables', tables),
    group('links', linkEntries(state)),
  ]
  return {
    node,
    ...(mode === undefined ? {} : { mode }),
    groups: groups.filter(({ children }) => children?.length),
  }
}

/**
 * The entries of a prediction, whose rules are spelled as ids need them, without references:
 * parsing rules takes nearly all the time.
 */
export function outlineOf(state: NodeState): Entry[] {
  const tables = (state.nftables ?? []).map((table) => nftTableEntry(table, false))
  return [
    iptablesEntries(state, false),
    ipsetEntries(state),
    ipvsEntries(state),
    tables,
    linkEntries(state),
  ].flat()
}

/** Every entry of the holdings, parents before their children. */
export function* holdingEntries({ groups }: Pick<NodeHoldings, 'groups'>): Generator<Entry> {
  for (const { entry } of placedEntries(groups)) yield entry
}

/** The same for any entries, each with its parents from the outermost. */
export function* placedEntries(
  entries: readonly Entry[],
  parents: readonly Entry[] = [],
): Generator<{ entry: Entry; parents: readonly Entry[] }> {
  for (const entry of entries) {
    yield { entry, parents }
    if (entry.children) yield* placedEntries(entry.children, [...parents, entry])
  }
}

const group = (name: string, children: Entry[]): Entry => ({
  id: name,
  kind: 'group',
  text: name,
  children,
})

/** Gives equal entries of one list a number from the second on, which makes their ids unique. */
function numbered(entries: Entry[]): Entry[] {
  const seen = new Set<string>()
  for (const { id } of entries) seen.add(id)
  if (seen.size === entries.length) return entries
  seen.clear()
  return entries.map((entry) => {
    let { id } = entry
    for (let count = 2; seen.has(id); count++) id = `${entry.id} #${count}`
    seen.add(id)
    return id === entry.id ? entry : { ...entry, id }
  })
}

/** @param parsed read the rules, for their references and for one id of all spellings of a rule */
function iptablesEntries({ iptables, ipsets }: NodeState, parsed: boolean): Entry[] {
  return [...iptables].map(([table, chains]) => ({
    id: idOf.table(table),
    kind: 'table',
    text: `*${table}`,
    children: [...chains.values()].map(({ name, policy, packets, rules }) => {
      const id = idOf.chain(table, name)
      const children = rules.map(({ spec, packets }): Entry => {
        const text = spec === '' ? `-A ${name}` : `-A ${name} ${spec}`
        if (!parsed) return { id: `${id}/${spec}`, kind: 'rule', text }
        const refersTo = referencesOf(
          spec,
          (chain) => chains.has(chain) && idOf.chain(table, chain),
          ipsets,
        )
        return {
          id: `${id}/${normaliseSpec(spec)}`,
          kind: 'rule',
          text,
          ...refersTo,
          ...countedPackets(packets),
        }
      })
      return {
        id,
        kind: 'chain',
        text: `:${name} ${policy}`,
        ...countedPackets(packets),
        children: numbered(children),
      }
    }),
  }))
}

const countedPackets = (packets: number | undefined) => (packets === undefined ? {} : { packets })
const referring = (ids: readonly string[]) =>
  ids.length === 0 ? {} : { refersTo: [...new Set(ids)] }

function referencesOf(
  spec: string,
  chainId: (chain: string) => string | false,
  ipsets: NodeState['ipsets'],
) {
  const target = chainId(targetOf(spec) ?? '')
  const sets = [...spec.matchAll(/--match-set (\S+)/g)].map(([, set = '']) => set)
  return referring([
    ...(target ? [target] : []),
    ...sets.filter((set) => ipsets.has(set)).map(idOf.set),
  ])
}

const leaves = (parent: string, kind: EntryKind, texts: Iterable<string>): Entry[] =>
  numbered([...texts].map((text) => ({ id: `${parent}/${text}`, kind, text })))

const ipsetEntries = ({ ipsets }: NodeState): Entry[] =>
  [...ipsets.values()].map(({ name, type, members }) => {
    const id = idOf.set(name)
    return { id, kind: 'set', text: `${name} ${type}`, children: leaves(id, 'member', members) }
  })

/** In the words of `ipvsadm -Ln`, with single blanks. */
const FORWARD_WORDS = { masq: 'Masq', route: 'Route', tunnel: 'Tunnel' }

function ipvsEntries({ virtualServers }: NodeState, live: LiveConnections = new Map()): Entry[] {
  return virtualServers.map((server) => {
    const { scheduler, persistent, flags } = server
    const key = virtualServerKey(server)
    const id = idOf.virtualServer(key)
    const options = [...(persistent === undefined ? [] : [`persistent ${persistent}`]), ...flags]
    const children = server.realServers.map((real): Entry => {
      const endpoint = printEndpoint(real.address, real.port)
      const connections = live.get(`${key} ${endpoint}`)
      const text = `-> ${endpoint} ${FORWARD_WORDS[real.forward]} ${real.weight}`
      return {
        id: `${id}/${endpoint}`,
        kind: 'real server',
        text,
        ...(connections && { connections }),
      }
    })
    const counts = children.flatMap(({ connections }) => connections ?? [])
    const sum = (of: 'active' | 'inactive') => counts.reduce((total, count) => total + count[of], 0)
    return {
      id,
      kind: 'virtual server',
      text: [key, scheduler, ...options].join(' '),
      ...(counts.length > 0 && {
        connections: { active: sum('active'), inactive: sum('inactive') },
      }),
      children: numbered(children),
    }
  })
}

const linkEntries = ({ links }: NodeState): Entry[] =>
  links.map(({ name, flags, addresses }) => {
    const id = idOf.link(name)
    const texts = addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`)
    return {
      id,
      kind: 'link',
      text: `${name}: <${flags.join(',')}>`,
      children: leaves(id, 'address', texts),
    }
  })

function nftTableEntry(table: NftTable, parsed: boolean): Entry {
  const title = nftTitle(table)
  const chainId = (chain: string): string[] =>
    table.chains.has(chain) ? [idOf.nft(title, 'chain', chain)] : []
  const elementsId = (name: string): string[] => {
    if (table.maps.has(name)) return [idOf.nft(title, 'map', name)]
    return table.sets.has(name) ? [idOf.nft(title, 'set', name)] : []
  }
  const refersTo = (text: string) => {
    if (!parsed) return {}
    const names = [...text.matchAll(/(\b(?:goto|jump) |@)([^\s,]+)/g)]
    return referring(
      names.flatMap(([, sign, name = '']) => (sign === '@' ? elementsId(name) : chainId(name))),
    )
  }
  const chains = [...table.chains].map(([name, chain]): Entry => {
    const id = idOf.nft(title, 'chain', name)
    const children = chain.rules.map(({ text, comment }): Entry => {
      const line = nftRuleLine(text, comment)
      return { id: `${id}/${line}`, kind: 'rule', text: line, ...refersTo(text) }
    })
    return { id, kind: 'chain', text: chainText(name, chain), children: numbered(children) }
  })
  const sets = [...table.sets].map(([name, { type, elements }]): Entry => {
    const id = idOf.nft(title, 'set', name)
    return {
      id,
      kind: 'set',
      text: `set ${name} { type ${type} }`,
      children: leaves(id, 'element', elements),
    }
  })
  const maps = [...table.maps].map(([name, { type, elements }]): Entry => {
    const id = idOf.nft(title, 'map', name)
    const children = [...elements].map(([key, value]): Entry => {
      return { id: `${id}/${key}`, kind: 'element', text: `${key} : ${value}`, ...refersTo(value) }
    })
    return {
      id,
      kind: 'map',
      text: `map ${name} { type ${type} : verdict }`,
      children: numbered(children),
    }
  })
  const children = [...chains, ...sets, ...maps]
  return { id: idOf.nftTable(title), kind: 'table', text: `table ${title}`, children }
}

function chainText(name: string, { base }: NftChain): string {
  if (!base) return `chain ${name}`
  const { type, hook, priority, policy = 'accept' } = base
  return `chain ${name} { type ${type} hook ${hook} priority ${priority}; policy ${policy} }`
}
