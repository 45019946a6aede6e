import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readCapturedNode } from '../../../dataplane/capture.ts'
import { parseIptablesSave, type Ruleset } from '../../../dataplane/iptables-save.ts'
import { virtualServerKey } from '../../../dataplane/ipvsadm-save.ts'
import {
  describeFlush,
  type FlushPlan,
  isEmptyFlush,
  planFlush,
} from '../../../dataplane/kube-proxy/flush.ts'
import {
  printVirtualServerDeletions,
  type SwitchedMode,
} from '../../../dataplane/kube-proxy/mode-ownership.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { targetOf } from '../../../dataplane/rule.ts'
import { oneService, predictOn } from '../../dataplane/kube-proxy/cluster-of.ts'
import { applyRestore } from './apply-restore.ts'

const recordings = join(import.meta.dirname, '../../../data/recordings')

interface Recorded {
  state: NodeState
  ipv6: Ruleset
}

function recorded(folder: string): Recorded {
  const path = join(recordings, folder)
  const files = new Map(
    readdirSync(path).map((name) => [name, readFileSync(join(path, name), 'utf8')]),
  )
  const { state, faults } = readCapturedNode(files)
  expect(faults).toEqual([])
  const ip6tables = join(path, 'ip6tables-save')
  return {
    state,
    ipv6: existsSync(ip6tables) ? parseIptablesSave(readFileSync(ip6tables, 'utf8')) : new Map(),
  }
}

function flushed({ state, ipv6 }: Recorded, plan: FlushPlan): Recorded {
  const servers = new Set(plan.virtualServers.map(virtualServerKey))
  const sets = new Set(plan.sets.map(({ name }) => name))
  return {
    state: {
      iptables: applyRestore(state.iptables, plan.ipv4.restore),
      ipsets: new Map([...state.ipsets].filter(([name]) => !sets.has(name))),
      virtualServers: state.virtualServers.filter(
        (server) => !servers.has(virtualServerKey(server)),
      ),
      links: plan.linkAddresses
        ? state.links.filter(({ name }) => name !== 'kube-ipvs0')
        : state.links,
    },
    ipv6: applyRestore(ipv6, plan.ipv6.restore),
  }
}

const chains = (ruleset: Ruleset) =>
  [...ruleset].flatMap(([table, all]) => [...all.keys()].map((chain) => `${table} ${chain}`))

/** All that this ruleset holds outside of the chains KUBE-*, except the jumps to them. */
const foreign = (ruleset: Ruleset) =>
  [...ruleset].flatMap(([table, all]) =>
    [...all.values()]
      .filter(({ name }) => !name.startsWith('KUBE-'))
      .flatMap(({ name, rules }) =>
        rules
          .filter(({ spec }) => !targetOf(spec)?.startsWith('KUBE-'))
          .map(({ spec }) => `${table} ${name} ${spec}`),
      ),
  )

const kindNodes = ['ipvs-kernel-2-switched-not-flushed', 'ipvs-kernel-3-flushed-and-used'].flatMap(
  (stage) =>
    readdirSync(join(recordings, 'kind-v1.20.2', stage, 'nodes')).map(
      (node) => `kind-v1.20.2/${stage}/nodes/${node}`,
    ),
)
const switched: [string, SwitchedMode][] = [
  ['transitions/v1.20.2/2-iptables-then-ipvs', 'ipvs'],
  ['transitions/v1.20.2/3-ipvs-then-iptables', 'iptables'],
  ['transitions/v1.30.3/3-ipvs-then-iptables', 'iptables'],
  ...kindNodes.map((folder): [string, SwitchedMode] => [folder, 'ipvs']),
]

describe.each(switched)('%s, where %s runs', (folder, mode) => {
  const before = recorded(folder)
  const plan = planFlush(mode, before.state, before.ipv6)
  const after = flushed(before, plan)

  test('something is removed, and a second plan is empty', () => {
    expect(isEmptyFlush(plan)).toBe(false)
    expect(plan.kept).toEqual([])
    expect(describeFlush(plan).length).toBeGreaterThan(0)
    const again = planFlush(mode, after.state, after.ipv6)
    expect(isEmptyFlush(again)).toBe(true)
    expect(describeFlush(again)).toEqual([])
  })

  test('no chain of the other mode is left', () => {
    const other =
      mode === 'ipvs'
        ? /KUBE-(SVC|SEP|EXT|FW|XLB)-|KUBE-NODEPORTS|CANARY$/
        : /KUBE-IPVS-|NODE-PORT$|LOAD-BALANCER$/
    const left = [...chains(after.state.iptables), ...chains(after.ipv6)].filter(
      (chain) => !/KUBELET/.test(chain),
    )
    expect(left.filter((chain) => other.test(chain))).toEqual([])
    expect(left.includes('filter KUBE-SERVICES')).toBe(mode !== 'ipvs')
  })

  test('foreign rules, and the rules of the running mode, are unchanged', () => {
    expect(foreign(after.state.iptables)).toEqual(foreign(before.state.iptables))
    for (const [table, all] of after.state.iptables)
      for (const { name, rules, policy } of all.values())
        if (policy === '-')
          expect(rules).toEqual(before.state.iptables.get(table)?.get(name)?.rules)
    const nat = after.state.iptables.get('nat')
    expect(nat?.has('KUBE-SERVICES')).toBe(true)
    expect(nat?.has('KUBE-MARK-MASQ')).toBe(true)
    expect(nat?.has('KIND-MASQ-AGENT')).toBe(true)
  })

  test('sets, virtual servers and kube-ipvs0 are removed only when IPVS does not run', () => {
    if (mode === 'ipvs') {
      expect(after.state.virtualServers).toEqual(before.state.virtualServers)
      expect(after.state.ipsets).toEqual(before.state.ipsets)
      expect(after.state.links).toEqual(before.state.links)
    } else {
      expect(after.state.virtualServers).toEqual([])
      expect([...after.state.ipsets.keys()]).toEqual([])
      expect(after.state.links.map(({ name }) => name)).not.toContain('kube-ipvs0')
    }
  })
})

test.each(['ipvs', 'iptables'] as const)(
  'a node on which only %s ever ran has nothing to remove',
  (mode) => {
    const { state } = recorded(`v1.30.3/${mode}/web-nodeport`)
    expect(isEmptyFlush(planFlush(mode, state))).toBe(true)
  },
)

// Recorded while the IPVS proxier was in its first sync: its virtual servers existed, KUBE-SERVICES
// was still the old one.
test('what a chain that kube-proxy has not rewritten yet jumps to is kept, with the reason', () => {
  const { state } = recorded('transitions/v1.30.3/2-iptables-then-ipvs')
  const plan = planFlush('ipvs', state)
  expect(
    plan.kept.some((line) => /KUBE-SVC-.* stays: KUBE-SERVICES still leads to it/.test(line)),
  ).toBe(true)
  expect(
    plan.ipv4.chains.map(({ chain }) => chain).filter((chain) => /KUBE-(SVC|SEP|EXT)-/.test(chain)),
  ).toEqual([])
})

test('a foreign rule keeps the set and the chain that it uses', () => {
  const { state } = recorded('transitions/v1.20.2/3-ipvs-then-iptables')
  const rules = state.iptables.get('nat')?.get('PREROUTING')?.rules
  rules?.push(
    { spec: '-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT' },
    { spec: '-p udp -j KUBE-NODE-PORT' },
  )
  const plan = planFlush('iptables', state)
  expect(plan.sets.map(({ name }) => name)).not.toContain('KUBE-CLUSTER-IP')
  expect(plan.sets.map(({ name }) => name)).not.toContain('KUBE-NODE-PORT-TCP')
  expect(plan.kept.join('\n')).toMatch(
    /nat chain KUBE-NODE-PORT stays: PREROUTING still leads to it/,
  )
  applyRestore(state.iptables, plan.ipv4.restore)
})

test('a virtual server made by hand, and a set of another name, are kept', () => {
  const { state } = recorded('transitions/v1.30.3/3-ipvs-then-iptables')
  const own = {
    protocol: 'TCP' as const,
    address: '192.0.2.10',
    port: 80,
    scheduler: 'wrr',
    flags: [],
    realServers: [],
  }
  state.virtualServers.push(own)
  state.ipsets.set('KUBE-MINE', {
    name: 'KUBE-MINE',
    type: 'hash:ip',
    options: {},
    members: new Set(),
  })
  const plan = planFlush('iptables', state)
  expect(plan.virtualServers).not.toContain(own)
  expect(plan.virtualServers).toHaveLength(state.virtualServers.length - 1)
  expect(plan.sets.map(({ name }) => name)).not.toContain('KUBE-MINE')
})

test('deletions are printed as ipvsadm reads them', () => {
  const servers = [
    {
      protocol: 'TCP' as const,
      address: '10.96.0.1',
      port: 443,
      scheduler: 'rr',
      flags: [],
      realServers: [],
    },
    {
      protocol: 'UDP' as const,
      address: 'fd00::a',
      port: 53,
      scheduler: 'rr',
      flags: [],
      realServers: [],
    },
  ]
  expect(printVirtualServerDeletions(servers)).toBe('-D -t 10.96.0.1:443\n-D -u [fd00::a]:53\n')
})

/**
 * Both rulesets on one node: kube-proxy inserts its jumps above those of the mode before, and
 * leaves its chains.
 */
function onTopOf(before: Ruleset, wanted: Ruleset): Ruleset {
  const result = structuredClone(before)
  for (const [name, table] of structuredClone(wanted)) {
    const own = result.get(name)
    if (!own) result.set(name, table)
    for (const chain of own ? table.values() : []) {
      chain.rules.push(...(own?.get(chain.name)?.rules ?? []))
      own?.set(chain.name, chain)
    }
  }
  return result
}

test.each(['iptables', 'ipvs'] as const)(
  'in %s mode the leftovers of userspace mode are removed, and nothing else',
  (mode) => {
    const objects = oneService({ type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }, [
      { ip: '10.244.1.5' },
    ])
    const wanted = predictOn(objects, '1.20', { mode })
    const { iptables } = predictOn(objects, '1.20', { mode: 'userspace' })
    const node = { ...wanted, iptables: onTopOf(iptables, wanted.iptables) }
    expect(node.iptables.get('nat')?.get('PREROUTING')?.rules).toHaveLength(3)
    const after = applyRestore(node.iptables, planFlush(mode, node).ipv4.restore)
    expect(
      [...(after.get('nat')?.keys() ?? [])].filter((chain) => /PORTALS|NODEPORT-/.test(chain)),
    ).toEqual([])
    for (const table of ['nat', 'filter'])
      for (const [chain, { rules }] of wanted.iptables.get(table) ?? [])
        expect(after.get(table)?.get(chain)?.rules).toEqual(rules)
  },
)

describe('beside nftables', () => {
  const tablesOf = (names: [family: 'ip' | 'ip6', name: string][]) =>
    names.map(([family, name]) => ({
      family,
      name,
      chains: new Map(),
      sets: new Map(),
      maps: new Map(),
    }))

  test.each(kindNodes)(
    'in %s everything of the other modes is removed, and nothing foreign',
    (folder) => {
      const before = recorded(folder)
      const plan = planFlush('nftables', before.state, before.ipv6)
      expect(isEmptyFlush(plan)).toBe(false)
      const after = flushed(before, plan)
      const left = [...chains(after.state.iptables), ...chains(after.ipv6)].filter((chain) =>
        chain.includes(' KUBE-'),
      )
      expect(
        left.filter((chain) => !/KUBELET|HINT|KUBE-FIREWALL|KUBE-MARK-DROP/.test(chain)),
      ).toEqual([])
      expect(foreign(after.state.iptables)).toEqual(foreign(before.state.iptables))
      expect([...after.state.ipsets.keys()].filter((name) => name.startsWith('KUBE-'))).toEqual([])
      expect(after.state.virtualServers).toEqual([])
      expect(isEmptyFlush(planFlush('nftables', after.state, after.ipv6))).toBe(true)
    },
  )

  test.each(['iptables', 'ipvs'] as const)(
    "in %s mode kube-proxy's nftables tables are removed, and no other table",
    (mode) => {
      const state = predictOn(oneService({}, [{ ip: '10.244.1.5' }]), '1.34', { mode })
      const nftables = tablesOf([
        ['ip', 'kube-proxy'],
        ['ip6', 'kube-proxy'],
        ['ip', 'kindnet-network-policies'],
      ])
      const plan = planFlush(mode, { ...state, nftables })
      expect(plan.nftables).toEqual(['ip kube-proxy', 'ip6 kube-proxy'])
      expect(describeFlush(plan)).toEqual(['nft table ip kube-proxy', 'nft table ip6 kube-proxy'])
      expect(isEmptyFlush(planFlush(mode, state))).toBe(true)
      expect(planFlush('nftables', { ...state, nftables }).nftables).toEqual([])
    },
  )
})
