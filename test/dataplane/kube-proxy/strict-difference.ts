import type { Chain, Ruleset } from '../../../dataplane/iptables-save.ts'
import { virtualServerKey } from '../../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'

/** Chains in which the Services have no fixed order (README of the recordings; a Go map). */
const FREE = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-NODEPORTS',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-NODEPORTS',
  'filter KUBE-PROXY-FIREWALL',
  'filter KUBE-IPVS-OUT-FILTER',
])

const service = (spec: string): string => /--comment "([^" ]*\/[^" ]*)/.exec(spec)?.[1] ?? ''

/**
 * With nodePortAddresses, the last rules of nat KUBE-SERVICES are one per address, in the order of
 * a Go map.
 */
function nodePortsSorted(specs: readonly string[]): string[] {
  const tail = specs.filter((spec) => spec.endsWith('-j KUBE-NODEPORTS')).sort()
  const others = specs.slice(0, specs.length - tail.length)
  return others.some((spec) => spec.endsWith('-j KUBE-NODEPORTS'))
    ? [...specs]
    : [...others, ...tail]
}

/**
 * The rules of a chain sorted by Service if the order of Services is not fixed; rules of no Service
 * keep their place.
 */
function settled(place: string, specs: string[]): string[] {
  if (!FREE.has(place)) return specs
  if (place === 'filter KUBE-IPVS-OUT-FILTER') return [...specs].sort()
  const rank = nodePortsSorted(specs).map((spec, index) => ({
    spec,
    index,
    service: service(spec),
  }))
  const own = rank.filter((rule) => rule.service !== '')
  own.sort((a, b) => (a.service < b.service ? -1 : a.service > b.service ? 1 : a.index - b.index))
  return rank.map((rule) => (rule.service === '' ? rule.spec : (own.shift()?.spec ?? '')))
}

const lines = (place: string, chain: Chain | undefined): string[] =>
  chain
    ? [
        `:${chain.name} ${chain.policy}`,
        ...settled(
          place,
          chain.rules.map((rule) => rule.spec),
        ),
      ]
    : []

export interface DifferenceOptions {
  /** Chains that are not compared, and rules that mention them neither. */
  ignore?: (table: string, chain: string) => boolean
  /** Compare jumps in built-in chains without their order. */
  jumpsInAnyOrder?: boolean
  tables?: string[]
  /** Compare only the addresses of kube-ipvs0: another kind of link was used in its place. */
  dummyAddressesOnly?: boolean
}

function rulesetDifference(
  expected: Ruleset,
  actual: Ruleset,
  options: DifferenceOptions,
): string[] {
  const differences: string[] = []
  for (const table of options.tables ?? new Set([...expected.keys(), ...actual.keys()])) {
    const [wanted, found] = [expected.get(table), actual.get(table)]
    if (!wanted || !found) {
      differences.push(`table ${table}: ${wanted ? 'missing' : 'not predicted'}`)
      continue
    }
    differences.push(...chainDifferences(table, wanted, found, options))
  }
  return differences
}

type Chains = NonNullable<ReturnType<Ruleset['get']>>

/** The chains of one table that differ. */
function chainDifferences(
  table: string,
  wanted: Chains,
  found: Chains,
  { ignore, jumpsInAnyOrder }: DifferenceOptions,
): string[] {
  const names = [...new Set([...wanted.keys(), ...found.keys()])]
  const ignored = names.filter((chain) => ignore?.(table, chain))
  const keep = (line: string) => !ignored.some((name) => line.endsWith(`-j ${name}`))
  return names
    .filter((chain) => !ignored.includes(chain))
    .flatMap((chain) => {
      const place = `${table} ${chain}`
      const inAnyOrder = wanted.get(chain)?.policy !== '-' && jumpsInAnyOrder
      const [a, b] = [wanted, found].map((chains) => {
        const list = lines(place, chains.get(chain))
        return (inAnyOrder ? list.sort() : list).filter(keep).join('\n')
      })
      return a === b ? [] : [`${place}:\n  expected\n${a}\n  actual\n${b}`]
    })
}

const servers = (state: NodeState): string[] =>
  state.virtualServers
    .map((server) => {
      const reals = server.realServers.map(
        (real) => `${real.address} ${real.port} ${real.forward} ${real.weight}`,
      )
      const { scheduler, persistent, netmask, flags } = server
      return `${virtualServerKey(server)} ${JSON.stringify({ scheduler, persistent, netmask, flags })} ${reals.sort()}`
    })
    .sort()

const OPTIONS = ['family', 'range', 'maxelem', 'timeout', 'netmask']

const sets = (state: NodeState): string[] =>
  [...state.ipsets.values()]
    .map((set) => {
      const options = OPTIONS.map((name) => `${name}=${set.options[name]}`)
      return `${set.name} ${set.type} ${options} ${[...set.members].sort().join(' ')}`
    })
    .sort()

const dummy = (state: NodeState, addressesOnly = false): string[] =>
  state.links
    .filter((link) => link.name === 'kube-ipvs0')
    .flatMap((link) => [
      ...(addressesOnly ? [] : [`${link.flags} ${link.operstate}`]),
      ...link.addresses.map((address) => `${address.address}/${address.prefixLength}`).sort(),
    ])

/**
 * Every difference between two states, exactly: an empty list means equal as the recordings' README
 * wants it.
 */
export function strictDifference(
  expected: NodeState,
  actual: NodeState,
  options: DifferenceOptions = {},
): string[] {
  const differences = rulesetDifference(expected.iptables, actual.iptables, options)
  for (const [what, list] of [
    ['ipset', sets],
    ['virtual server', servers],
    ['kube-ipvs0', (state: NodeState) => dummy(state, options.dummyAddressesOnly)],
  ] as const) {
    const [wanted, found] = [new Set(list(expected)), new Set(list(actual))]
    for (const line of wanted) if (!found.has(line)) differences.push(`${what} missing: ${line}`)
    for (const line of found) if (!wanted.has(line)) differences.push(`${what} unexpected: ${line}`)
  }
  return differences
}
