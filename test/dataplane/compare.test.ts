import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareNodeState, type Difference } from '../../dataplane/compare.ts'
import {
  type Chain,
  parseIptablesSave,
  type Rule,
  type Ruleset,
} from '../../dataplane/iptables-save.ts'
import type { IpvsProtocol } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { commentOf } from '../../dataplane/rule.ts'
import { recordedFolders, stateAt } from './recordings.ts'

const ipvs = 'v1.30.3/ipvs/random-20'
const iptables = 'v1.30.3/iptables/random-20'

function chainsOf(ruleset: Ruleset): { table: string; chain: Chain }[] {
  return [...ruleset].flatMap(([table, chains]) =>
    [...chains.values()].map((chain) => ({ table, chain })),
  )
}

function compareWith(
  folder: string,
  mode: 'iptables' | 'ipvs',
  change: (actual: NodeState) => void,
): Difference[] {
  const actual = stateAt(folder)
  change(actual)
  return compareNodeState(stateAt(folder), actual, { mode })
}

function kinds(differences: Difference[]): string[] {
  return differences.map(({ kind }) => kind)
}

function chain(actual: NodeState, table: string, name: string): Chain {
  const found = actual.iptables.get(table)?.get(name)
  if (!found) throw new Error(`the recording has no ${table} ${name}`)
  return found
}

describe('compareNodeState', () => {
  test('finds no difference between a recorded node and itself', () => {
    for (const folder of recordedFolders)
      expect(compareNodeState(stateAt(folder), stateAt(folder), { mode: 'ipvs' }), folder).toEqual(
        [],
      )
  })

  test('ignores chains, rules, sets and links of other programs', () => {
    const differences = compareWith(iptables, 'iptables', (actual) => {
      const foreign = parseIptablesSave(
        [
          '*nat',
          ':POSTROUTING ACCEPT [0:0]',
          ...[
            'KIND-MASQ-AGENT',
            'DOCKER_OUTPUT',
            'CNI-HOSTPORT',
            'ts-postrouting',
            'KUBE-KUBELET-CANARY',
          ].map((name) => `:${name} - [0:0]`),
          '-A KIND-MASQ-AGENT -m comment --comment "see KUBE-SERVICES" -j MASQUERADE',
          '-A POSTROUTING -j KIND-MASQ-AGENT',
          'COMMIT',
        ].join('\n'),
      ).get('nat')
      for (const [name, added] of foreign ?? []) {
        const present = actual.iptables.get('nat')?.get(name)
        if (present) present.rules.push(...added.rules)
        else actual.iptables.get('nat')?.set(name, added)
      }
      actual.iptables.get('nat')?.set('KUBE-MARK-DROP', {
        name: 'KUBE-MARK-DROP',
        policy: '-',
        rules: [{ spec: '-j MARK' }],
      })
      chain(actual, 'filter', 'KUBE-FIREWALL').rules.push({
        spec: '-m mark --mark 0x8000/0x8000 -j DROP',
      })
      chain(actual, 'filter', 'INPUT').rules.reverse()
      chain(actual, 'filter', 'INPUT').policy = 'DROP'
      actual.ipsets.set('cali40', {
        name: 'cali40',
        type: 'hash:ip',
        options: {},
        members: new Set(['10.0.0.1']),
      })
      actual.links.push({ name: 'dummy0', flags: [], operstate: 'DOWN', addresses: [] })
    })
    expect(differences).toEqual([])
  })

  test('ignores counters, hash sizes, and the order of Services and virtual servers', () => {
    const shuffle = (actual: NodeState) => {
      for (const set of actual.ipsets.values()) set.options.hashsize = '64'
      for (const { chain } of chainsOf(actual.iptables))
        for (const rule of chain.rules) rule.packets = 7
      actual.virtualServers.reverse()
    }
    expect(compareWith(ipvs, 'ipvs', shuffle)).toEqual([])
    const services = compareWith(iptables, 'iptables', (actual) => {
      const { rules } = chain(actual, 'nat', 'KUBE-SERVICES')
      const service = (rule: Rule) => (commentOf(rule.spec) ?? '').split(' ', 1)[0] ?? ''
      rules.splice(
        0,
        rules.length - 1,
        ...rules
          .slice(0, -1)
          .sort((a, b) => (service(a) < service(b) ? 1 : -1) * Number(service(a) !== service(b))),
      )
    })
    expect(services).toEqual([])
  })

  describe('an unexpected virtual server', () => {
    const added = (
      address: string,
      port: number,
      protocol: IpvsProtocol = 'TCP',
      local = '192.0.2.9',
    ) =>
      compareWith(ipvs, 'ipvs', (actual) => {
        actual.links.push({
          name: 'dummy0',
          flags: [],
          operstate: 'DOWN',
          addresses: [{ family: 'inet', address: local, prefixLength: 32 }],
        })
        actual.virtualServers.push({
          protocol,
          address,
          port,
          scheduler: 'rr',
          flags: [],
          realServers: [],
        })
      }).map(({ kind, where }) => ({ kind, where }))
    const stale = (virtualServer: string) => [{ kind: 'stale', where: { virtualServer } }]

    test('is foreign on an address of the node that no packet for a Service reaches', () =>
      expect(added('192.0.2.9', 8080)).toEqual([]))
    test('is stale at a node port, at a Service address and for a firewall mark', () => {
      expect(added('192.0.2.9', 30_999)).toEqual(stale('TCP 192.0.2.9:30999'))
      expect(added('10.96.200.200', 8080)).toEqual(stale('TCP 10.96.200.200:8080'))
      expect(added('7', 0, 'FWM')).toEqual(stale('FWM 7'))
    })
    test('is stale at the address and port of an endpoint on the node itself', () => {
      const real = stateAt(ipvs).virtualServers.find(
        ({ protocol, realServers }) => protocol === 'TCP' && realServers[0],
      )
      const { address = '', port = 0 } = real?.realServers[0] ?? {}
      expect(added(address, port, 'TCP', address)).toEqual(stale(`TCP ${address}:${port}`))
      expect(added(address, port + 1, 'TCP', address)).toEqual([])
    })
  })

  test('finds the rule that must be last in another place', () => {
    const differences = compareWith(iptables, 'iptables', (actual) => {
      const { rules } = chain(actual, 'nat', 'KUBE-SERVICES')
      rules.unshift(...rules.splice(-1))
    })
    expect(kinds(differences)).toEqual(['order'])
    expect(differences[0]?.text).toContain('must be the last rule')
  })

  test.each([
    ['iptables', iptables],
    ['ipvs', ipvs],
  ] as const)(
    'finds each deleted, duplicate or altered rule in %s mode, and nothing else',
    (mode, folder) => {
      const owned = chainsOf(stateAt(folder).iptables).filter(
        ({ chain }) => /^KUBE-/.test(chain.name) && chain.rules.length > 0,
      )
      const places = owned.flatMap(({ table, chain }) =>
        chain.rules.map((_, index) => ({ table, name: chain.name, index })),
      )
      const change = fc.constantFrom('missing' as const, 'stale' as const, 'wrong' as const)
      fc.assert(
        fc.property(fc.constantFrom(...places), change, ({ table, name, index }, kind) => {
          const differences = compareWith(folder, mode, (actual) => {
            const { rules } = chain(actual, table, name)
            const rule = rules[index] as Rule
            if (kind === 'missing') rules.splice(index, 1)
            else if (kind === 'stale') rules.push({ ...rule })
            else {
              const elsewhere = rule.spec.replace(/ -j \S+/, ' -j KUBE-NOWHERE')
              // A rule that only counts, or only jumps, gets another source instead.
              rules[index] = {
                spec: elsewhere === rule.spec ? `-s 10.9.9.9/32 ${rule.spec}` : elsewhere,
              }
            }
          })
          if (table === 'filter' && name === 'KUBE-FIREWALL')
            expect(kinds(differences)).not.toContain('order')
          else expect(differences.length).toBeGreaterThan(0)
          for (const difference of differences)
            expect(difference.where).toEqual({ table, chain: name })
          if (kind === 'missing') expect(kinds(differences)).toEqual(['missing'])
        }),
      )
    },
  )

  test('finds two swapped rules of one Service', () => {
    const ordered = chainsOf(stateAt(iptables).iptables).filter(({ chain }) => {
      return (
        /^KUBE-(SVC|EXT|SEP)-/.test(chain.name) &&
        new Set(chain.rules.map(({ spec }) => spec)).size > 1
      )
    })
    for (const {
      table,
      chain: { name },
    } of ordered) {
      const differences = compareWith(iptables, 'iptables', (actual) => {
        const { rules } = chain(actual, table, name)
        rules.push(...rules.splice(0, 1))
      })
      expect(kinds(differences)).toEqual(['order'])
    }
  })

  test.each([
    [
      'a member removed',
      'missing',
      (actual: NodeState) =>
        actual.ipsets.get('KUBE-CLUSTER-IP')?.members.delete('10.96.0.1,tcp:443'),
    ],
    [
      'a member added',
      'stale',
      (actual: NodeState) => actual.ipsets.get('KUBE-CLUSTER-IP')?.members.add('10.9.0.1,tcp:1'),
    ],
    ['a set destroyed', 'missing', (actual: NodeState) => actual.ipsets.delete('KUBE-LOOP-BACK')],
    ['a virtual server removed', 'missing', (actual: NodeState) => actual.virtualServers.pop()],
    [
      'a scheduler changed',
      'wrong',
      (actual: NodeState) => first(actual.virtualServers, (server) => (server.scheduler = 'wlc')),
    ],
    [
      'a real server reweighted',
      'wrong',
      (actual: NodeState) => first(reals(actual), (real) => (real.weight = 0)),
    ],
    [
      'a real server altered',
      'wrong',
      (actual: NodeState) => first(reals(actual), (real) => (real.forward = 'route')),
    ],
    ['an address removed', 'missing', (actual: NodeState) => ipvsLink(actual)?.addresses.pop()],
    ['a link removed', 'missing', (actual: NodeState) => actual.links.pop()],
    [
      'a chain flushed and deleted',
      'missing',
      (actual: NodeState) => actual.iptables.get('nat')?.delete('KUBE-POSTROUTING'),
    ],
    [
      'a chain left behind',
      'stale',
      (actual: NodeState) => {
        actual.iptables
          .get('nat')
          ?.set('KUBE-SVC-X', { name: 'KUBE-SVC-X', policy: '-', rules: [] })
      },
    ],
    [
      'a jump removed',
      'missing',
      (actual: NodeState) => chain(actual, 'nat', 'PREROUTING').rules.pop(),
    ],
    [
      'a jump left behind',
      'stale',
      (actual: NodeState) =>
        chain(actual, 'filter', 'INPUT').rules.push({ spec: '-j KUBE-SERVICES' }),
    ],
  ])('finds %s', (_, kind, change) => {
    expect(kinds(compareWith(ipvs, 'ipvs', change))).toEqual([kind])
  })

  test('ignores an additional real server of weight 0, which is being terminated', () => {
    const add = (weight: number) => (actual: NodeState) => {
      actual.virtualServers[0]?.realServers.push({
        address: '10.9.9.9',
        port: 80,
        forward: 'masq',
        weight,
      })
    }
    expect(compareWith(ipvs, 'ipvs', add(0))).toEqual([])
    expect(kinds(compareWith(ipvs, 'ipvs', add(1)))).toEqual(['stale'])
  })

  test('finds only leftovers after a recorded switch from ipvs to iptables', () => {
    const differences = compareNodeState(
      stateAt('v1.30.3/iptables/web-nodeport'),
      stateAt('transitions/v1.30.3/3-ipvs-then-iptables'),
      { mode: 'iptables' },
    )
    expect(new Set(kinds(differences))).toEqual(new Set(['stale']))
    expect(differences.map(({ where }) => JSON.stringify(where))).toEqual(
      expect.arrayContaining([
        '{"link":"kube-ipvs0"}',
        '{"set":"KUBE-CLUSTER-IP"}',
        '{"table":"nat","chain":"KUBE-NODE-PORT"}',
      ]),
    )
  })
})

function first<Value>(values: Value[], change: (value: Value) => unknown): void {
  const value = values[0]
  if (value === undefined) throw new Error('the recording has none')
  change(value)
}

function reals(actual: NodeState) {
  return actual.virtualServers.flatMap(({ realServers }) => realServers)
}

function ipvsLink(actual: NodeState) {
  return actual.links.find(({ name }) => name === 'kube-ipvs0')
}
