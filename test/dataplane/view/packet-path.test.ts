import { expect, test } from 'vitest'
import { parseIpvsadmList } from '../../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { parsePacket } from '../../../dataplane/trace.ts'
import { countedOn } from '../../../dataplane/view/counted-path.ts'
import { holdingEntries, holdingsOf } from '../../../dataplane/view/holdings.ts'
import { packetPath, pathsInAllModes } from '../../../dataplane/view/packet-path.ts'
import { external, node, pod } from '../made-node.ts'
import { recordedNodes, threeVersions } from './nodes.ts'

const pathOf = (state: NodeState, from: string, to: string, isService = true) =>
  packetPath(state, parsePacket(from, to), {
    node: 'worker',
    mode: 'iptables',
    real: true,
    isService,
  })

const ORIGINS = ['pod:10.244.1.99', 'pod:10.244.1.6', 'host', 'outside']
const DESTINATIONS = [
  '10.96.119.228:80',
  '172.18.0.3:31730',
  '172.18.255.200:80',
  '10.96.0.10:53/udp',
]

test('actions on a packet are entries of the node, and the probabilities of its ends add up to 1', () => {
  for (const { path, read } of threeVersions) {
    const { state } = read()
    const ids = new Set([...holdingEntries(holdingsOf('worker', state))].map(({ id }) => id))
    for (const from of ORIGINS)
      for (const to of DESTINATIONS) {
        const { hooks, ends, legs } = pathOf(state, from, to)
        const actions = hooks.flatMap((hook) => hook.actions)
        const isPlaced = (entries: readonly string[]) =>
          entries.length > 0 && entries.every((id) => ids.has(id))
        expect(
          actions.filter(({ entries }) => !isPlaced(entries)),
          path,
        ).toEqual([])
        expect(ends.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1)
        expect(new Set(legs.flat()).size, `${from} ${to}`).toBeGreaterThanOrEqual(hooks.length)
      }
  }
})

const nat = [
  ':KUBE-SERVICES - [0:0]',
  ':KUBE-SVC-A - [0:0]',
  ':KUBE-SEP-B - [0:0]',
  ':KUBE-SEP-C - [0:0]',
  '[0:0] -A PREROUTING -j KUBE-SERVICES',
  '[0:0] -A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A',
  '[0:0] -A KUBE-SVC-A -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B',
  '[0:0] -A KUBE-SVC-A -j KUBE-SEP-C',
  '[0:0] -A KUBE-SEP-B -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080',
  '[0:0] -A KUBE-SEP-C -p tcp -m tcp -j DNAT --to-destination 10.244.2.5:8080',
]
const [toB, toC] = ['B --to 10.244.1.5', 'C --to 10.244.2.5'].map((word) => {
  const [chain, , address] = word.split(' ')
  return `iptables/nat/KUBE-SEP-${chain}/-p tcp -m tcp -j DNAT --to-destination ${address}:8080`
}) as [string, string]

test('alternative actions have their common chains, their probabilities and their entries', () => {
  const { hooks, ends, conntrack, stop } = pathOf(node({ nat }), pod, '10.96.0.9:80')
  expect(hooks).toEqual([
    {
      hook: 'PREROUTING',
      actions: [
        {
          table: 'nat',
          chains: ['PREROUTING', 'KUBE-SERVICES', 'KUBE-SVC-A'],
          text: 'DNAT to 10.244.1.5:8080',
          probability: 0.5,
          entries: [toB],
        },
        {
          table: 'nat',
          chains: ['PREROUTING', 'KUBE-SERVICES', 'KUBE-SVC-A'],
          text: 'DNAT to 10.244.2.5:8080',
          probability: 0.5,
          entries: [toC],
        },
      ],
    },
    { hook: 'FORWARD', actions: [] },
    { hook: 'POSTROUTING', actions: [] },
  ])
  expect(ends.map(({ to, verdict }) => [to, verdict])).toEqual([
    ['10.244.1.5:8080', 'dnat'],
    ['10.244.2.5:8080', 'dnat'],
  ])
  expect(conntrack).toMatch(
    /^conntrack remembers 10\.244\.1\.9 → 10\.96\.0\.9:80\/tcp and the one endpoint/,
  )
  expect(stop).toBeUndefined()
})

test('a stopped packet has its hook, table, chain and rule, and the consequence for the sender', () => {
  const filter = ['-A FORWARD -d 10.244.0.0/16 -j DROP']
  expect(pathOf(node({ nat, filter }), external, '10.96.0.9:80').stop).toEqual({
    hook: 'FORWARD',
    table: 'filter',
    chain: 'FORWARD',
    rule: '-A FORWARD -d 10.244.0.0/16 -j DROP',
    sentence:
      'The packet is dropped on worker by filter FORWARD: -A FORWARD -d 10.244.0.0/16 -j DROP. The sender gets no answer and times out.',
  })
  const { links, ...rest } = node({ nat })
  const withoutIpvs = { ...rest, links: links.filter(({ name }) => name !== 'kube-ipvs0') }
  expect(pathOf(withoutIpvs, pod, '10.96.0.9:81').stop).toEqual({
    hook: 'PREROUTING',
    table: 'nat',
    chain: 'KUBE-SERVICES',
    rule: '',
    sentence:
      'The packet reaches KUBE-SERVICES on worker and finds no rule for TCP 10.96.0.9:81. No rule translates it: it goes to its original destination.',
  })
  expect(pathOf(withoutIpvs, pod, '10.244.2.5:8080', false).stop).toBeUndefined()
})

test('pathsInAllModes traces the mode of the node in its state and the other modes in predictions', () => {
  for (const own of ['iptables', 'ipvs', 'nftables'] as const) {
    const recorded = recordedNodes
      .find(({ path }) => path === `v1.30.3/${own}/web-three-endpoints`)
      ?.read()
    if (!recorded) throw new Error('it is recorded')
    const { state, objects, options } = recorded
    const paths = pathsInAllModes(
      state,
      objects,
      parsePacket('pod:10.244.1.99', '10.96.119.228:80'),
      {
        ...options,
        isService: true,
      },
    )
    const byMode = new Map(paths.map((path) => [path.mode, path]))
    expect(paths.map(({ mode, real }) => [mode, real])[0]).toEqual([own, true])
    expect(paths.filter(({ real }) => !real)).toHaveLength(2)
    for (const path of paths) {
      expect(path.ends.map(({ to }) => to)).toEqual([
        '10.244.1.6:80',
        '10.244.1.7:80',
        '10.244.2.4:80',
      ])
      expect(path.stop).toBeUndefined()
    }
    expect(byMode.get('ipvs')).toMatchObject({ local: 'IPVS' })
    expect(byMode.get('nftables')?.hooks[0]?.actions[0]).toMatchObject({ table: 'ip kube-proxy' })
  }
  const old = recordedNodes.find(({ path }) => path === 'v1.20.2/iptables/web-clusterip')?.read()
  if (!old) throw new Error('it is recorded')
  const options = { ...old.options, isService: true }
  const modes = pathsInAllModes(
    old.state,
    old.objects,
    parsePacket('host', '10.96.119.228:80'),
    options,
  ).map(({ mode }) => mode)
  expect(modes).toEqual(['iptables', 'ipvs'])
})

test('countedOn adds the packets that the kernel counted, and marks implausibly small counts', () => {
  const path = pathOf(node({ nat }), pod, '10.96.0.9:80')
  const counters = (b: number, c: number) =>
    holdingsOf(
      'worker',
      node({
        nat: nat.map((line) =>
          line
            .replace('[0:0] -A KUBE-SEP-B', `[${b}:0] -A KUBE-SEP-B`)
            .replace('[0:0] -A KUBE-SEP-C', `[${c}:0] -A KUBE-SEP-C`),
        ),
      }),
    )
  const counted = (b: number, c: number) =>
    countedOn(path, counters(2, 3), counters(2 + b, 3 + c), b + c)
  const actionsOf = (one: typeof path) =>
    one.hooks.flatMap(({ actions }) => actions).map((action) => [action.counted, action.disagrees])
  expect(actionsOf(counted(9, 11))).toEqual([
    [9, undefined],
    [11, undefined],
  ])
  expect(counted(9, 11).ends.map(({ counted }) => counted)).toEqual([9, 11])
  expect(actionsOf(counted(0, 20))).toEqual([
    [0, true],
    [20, undefined],
  ])
  expect(actionsOf(counted(0, 3))).toEqual([
    [0, undefined],
    [3, undefined],
  ])
  const dropped = pathOf(node({ nat, filter: ['[0:0] -A FORWARD -j DROP'] }), pod, '10.96.0.9:80')
  const drops = (count: number) =>
    holdingsOf('worker', node({ nat, filter: [`[${count}:0] -A FORWARD -j DROP`] }))
  expect(countedOn(dropped, drops(0), drops(5), 5).ends).toMatchObject([
    { verdict: 'drop', counted: 5 },
  ])
  expect(actionsOf(countedOn(dropped, drops(0), drops(4), 5)).at(-1)).toEqual([4, true])
})

test('a rule that masquerades to several addresses has one counter, which no action shows', () => {
  const local = nat.map((line) => line.replace('10.244.2.5', '172.18.9.9'))
  const masquerading = (count: number) =>
    node({ nat: [...local, `[${count}:0] -A POSTROUTING -j MASQUERADE`] })
  const path = pathOf(masquerading(0), pod, '10.96.0.9:80')
  const counted = countedOn(
    path,
    holdingsOf('worker', masquerading(0)),
    holdingsOf('worker', masquerading(4)),
    4,
  )
  expect(counted.hooks.at(-1)?.actions.map((action) => [action.text, action.counted])).toEqual([
    ['MASQUERADE source becomes 10.244.1.1', undefined],
    ['MASQUERADE source becomes 172.18.0.3', undefined],
  ])
})

test('connections of a real server are counted', () => {
  const servers = '-A -t 10.96.0.1:443 -s rr\n-a -t 10.96.0.1:443 -r 10.244.2.7:6443 -m -w 1\n'
  const state = node({}, servers)
  const list = (active: number) =>
    parseIpvsadmList(
      `TCP  10.96.0.1:443 rr\n  -> 10.244.2.7:6443   Masq    1      ${active}          1\n`,
    )
  const at = (active: number) => holdingsOf('worker', state, { connections: list(active) })
  const path = countedOn(pathOf(state, pod, '10.96.0.1:443'), at(0), at(6), 6)
  expect(path.ends).toMatchObject([{ to: '10.244.2.7:6443', counted: 6 }])
})
