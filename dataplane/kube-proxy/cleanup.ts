// What `kube-proxy --cleanup` removes: pkg/proxy/{iptables,ipvs,userspace} CleanupLeftovers.

import type { Ruleset, Table } from '../iptables-save.ts'
import type { NodeState } from '../node-state.ts'
import { targetOf } from '../rule-text.ts'
import { isServiceChain } from './chain-names.ts'
import { iptablesJumps } from './iptables/static-chains.ts'
import { DUMMY_LINK } from './ipvs/dummy-link.ts'
import { ipvsJumps } from './ipvs/ruleset.ts'
import { setNames } from './ipvs/sets.ts'
import type { Jump } from './ruleset-builder.ts'
import { type Features, featuresOf } from './versions.ts'

/** One clean-up: the jumps it deletes, then per table the chains it flushes and deletes together or not at all. */
interface Sweep {
  jumps: Jump[]
  nat: string[]
  filter: string[]
  mangle: string[]
  /** Also deletes the chains of single Services and endpoints. */
  services: boolean
}

const USERSPACE_NAT = ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST', 'KUBE-NODEPORT-CONTAINER', 'KUBE-NODEPORT-HOST']

/** 1.20 cleans userspace mode first; its jumps are those into its chains. */
const userspaceSweep: Sweep = {
  jumps: [],
  nat: USERSPACE_NAT,
  filter: ['KUBE-NODEPORT-NON-LOCAL'],
  mangle: [],
  services: false,
}

function iptablesSweep(features: Features): Sweep {
  const shared = features.cleanupShared ? ['KUBE-PROXY-CANARY'] : []
  return {
    // KUBE-FIREWALL with its jumps may be the kubelet's, and is never removed.
    jumps: iptablesJumps({ features }).filter((jump) => jump.to !== 'KUBE-FIREWALL'),
    nat: [
      'KUBE-SERVICES',
      'KUBE-NODEPORTS',
      'KUBE-POSTROUTING',
      ...(features.cleanupShared ? ['KUBE-MARK-MASQ'] : []),
      ...shared,
    ],
    filter: [
      'KUBE-SERVICES',
      'KUBE-EXTERNAL-SERVICES',
      'KUBE-FORWARD',
      'KUBE-NODEPORTS',
      ...(features.cleanupShared ? ['KUBE-PROXY-FIREWALL'] : []),
      ...shared,
    ],
    mangle: shared,
    services: true,
  }
}

function ipvsSweep(features: Features): Sweep {
  const nat = ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER']
  if (features.dropsIn === 'nat') nat.push('KUBE-FIREWALL')
  const filter = ['KUBE-FORWARD']
  if (features.cleanupIpvsNodePort) filter.push('KUBE-NODE-PORT')
  if (features.dropsIn === 'filter') filter.push('KUBE-PROXY-FIREWALL', 'KUBE-SOURCE-RANGES-FIREWALL')
  if (features.ipvsFilter) filter.push('KUBE-IPVS-FILTER')
  if (features.ipvsOutFilter) filter.push('KUBE-IPVS-OUT-FILTER')
  return { jumps: ipvsJumps({ features }), nat, filter, mangle: [], services: false }
}

/** Deletes chains in one transaction, which fails as a whole when a chain that stays leads into one of them. */
function deleteChains(table: Table, doomed: ReadonlySet<string>): Table {
  for (const chain of table.values())
    if (!doomed.has(chain.name) && chain.rules.some((rule) => doomed.has(targetOf(rule.spec) ?? ''))) {
      // Flushing happens in the same transaction, so nothing of it lasts either.
      return table
    }
  return new Map([...table].filter(([name]) => !doomed.has(name)))
}

function sweepRules(rules: Ruleset, sweep: Sweep): Ruleset {
  const result: Ruleset = new Map()
  for (const [name, table] of rules) {
    const jumps = new Set(sweep.jumps.filter((jump) => jump.table === name).map((jump) => `${jump.from} ${jump.spec}`))
    const listed = name === 'nat' ? sweep.nat : name === 'filter' ? sweep.filter : name === 'mangle' ? sweep.mangle : []
    const doomed = new Set(listed.filter((chain) => table.has(chain)))
    if (sweep.services && name === 'nat') for (const chain of table.keys()) if (isServiceChain(chain)) doomed.add(chain)
    const isUserspace = (spec: string) => sweep === userspaceSweep && doomed.has(targetOf(spec) ?? '')
    const without: Table = new Map()
    for (const [chainName, chain] of table)
      without.set(chainName, {
        ...chain,
        rules:
          chain.policy === '-'
            ? chain.rules
            : chain.rules.filter(({ spec }) => !jumps.has(`${chainName} ${spec}`) && !isUserspace(spec)),
      })
    result.set(name, deleteChains(without, doomed))
  }
  return result
}

/**
 * The node after `kube-proxy --cleanup` of that version, which removes the rules of every mode, every virtual server
 * (also those of others; 1.20 none), kube-ipvs0 and the IPv4 sets. What it forgets stays: KUBE-MARK-MASQ, the canaries and KUBE-FIREWALL, and
 * the KUBE-6- sets.
 */
export function cleanup(state: NodeState, version: string): NodeState {
  const features = featuresOf(version)
  const sweeps = [iptablesSweep(features), ipvsSweep(features)]
  if (features.userspace) sweeps.unshift(userspaceSweep)
  const iptables = sweeps.reduce(sweepRules, state.iptables)
  const doomed = new Set(setNames('ipv4', features))
  const inUse = setsInUse(iptables)
  return {
    ...state,
    iptables,
    ipsets: new Map([...state.ipsets].filter(([name]) => !doomed.has(name) || inUse.has(name))),
    virtualServers: features.cleanupFlushesIpvs ? [] : state.virtualServers,
    links: state.links.filter((link) => link.name !== DUMMY_LINK),
  }
}

/** The kernel refuses to destroy a set that a rule matches. */
function setsInUse(rules: Ruleset): Set<string> {
  const used = new Set<string>()
  for (const table of rules.values())
    for (const chain of table.values())
      for (const { spec } of chain.rules)
        for (const [, name] of spec.matchAll(/--match-set (\S+)/g)) if (name !== undefined) used.add(name)
  return used
}
