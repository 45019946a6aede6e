import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { entryName } from '../../../dataplane/entry-id.ts'
import { parseIpvsadmList } from '../../../dataplane/ipvsadm-save.ts'
import { type Entry, holdingEntries, holdingsOf } from '../../../dataplane/view/holdings.ts'
import { node } from '../made-node.ts'
import { recordingPath } from '../recordings.ts'
import { listedTables, recordedNodes, wholeNodes } from './nodes.ts'

const empty = { iptables: new Map(), ipsets: new Map(), virtualServers: [], links: [] }
const everything = [
  ...recordedNodes.map(({ path, read }) => ({ path, read: () => read().state })),
  ...wholeNodes.map(({ path, state }) => ({ path, read: () => state })),
  ...listedTables.map(({ path, tables }) => ({
    path,
    read: () => ({ ...empty, nftables: tables }),
  })),
]

test('everything on a node is an entry, with an id of its own and references that lead to entries', () => {
  for (const { path, read } of everything) {
    const state = read()
    const entries = [...holdingEntries(holdingsOf('worker', state))]
    const ids = new Set(entries.map(({ id }) => id))
    expect(ids.size, path).toBe(entries.length)
    expect(
      entries.flatMap(({ refersTo = [] }) => refersTo.filter((id) => !ids.has(id))),
      path,
    ).toEqual([])
    const { iptables, ipsets, virtualServers, links, nftables = [] } = state
    const chains = [...iptables.values(), ...nftables.map((table) => table.chains)].flatMap(
      (table) => [...table.values()],
    )
    const elements = nftables.flatMap(({ sets, maps }) => [...sets.values(), ...maps.values()])
    const count = (kind: Entry['kind']) => entries.filter((entry) => entry.kind === kind).length
    const sum = (counts: number[]) => counts.reduce((all, one) => all + one, 0)
    expect(count('chain'), path).toBe(chains.length)
    expect(count('rule'), path).toBe(sum(chains.map(({ rules }) => rules.length)))
    expect(count('member'), path).toBe(sum([...ipsets.values()].map(({ members }) => members.size)))
    expect(count('virtual server'), path).toBe(virtualServers.length)
    expect(count('real server'), path).toBe(
      sum(virtualServers.map(({ realServers }) => realServers.length)),
    )
    expect(count('address'), path).toBe(sum(links.map(({ addresses }) => addresses.length)))
    expect(count('element'), path).toBe(sum(elements.map(({ elements }) => elements.size)))
  }
})

test('a rule refers to its target chain and its sets, and has its counter', () => {
  const state = node(
    {
      nat: [
        ':KUBE-X - [0:0]',
        '[7:420] -A PREROUTING -m set --match-set S dst,dst -j KUBE-X',
        '-A PREROUTING -j KUBE-X',
      ],
    },
    '',
    'create S hash:ip,port family inet\nadd S 10.96.0.1,tcp:443\n',
  )
  const rules = [...holdingEntries(holdingsOf('worker', state))].filter(
    ({ kind }) => kind === 'rule',
  )
  expect(rules).toEqual([
    {
      id: 'iptables/nat/PREROUTING/-m set --match-set S dst,dst -j KUBE-X',
      kind: 'rule',
      text: '-A PREROUTING -m set --match-set S dst,dst -j KUBE-X',
      refersTo: ['iptables/nat/KUBE-X', 'ipset/S'],
      packets: 7,
    },
    expect.objectContaining({ refersTo: ['iptables/nat/KUBE-X'] }),
  ])
})

test('equal rules of a chain are numbered, and names with a slash have unique ids', () => {
  const nat = [
    ':A - [0:0]',
    ':A/-j - [0:0]',
    ':100% - [0:0]',
    '-A A -j ACCEPT',
    '-A A -j ACCEPT',
    '-A A/-j -j ACCEPT',
  ]
  const entries = [...holdingEntries(holdingsOf('worker', node({ nat })))]
  expect(entries.map(({ id }) => id)).toEqual(
    expect.arrayContaining([
      'iptables/nat/A/-j ACCEPT',
      'iptables/nat/A/-j ACCEPT #2',
      'iptables/nat/A%2F-j/-j ACCEPT',
    ]),
  )
  expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length)
  const names = entries
    .filter(({ id, kind }) => kind === 'chain' && id.includes('nat/'))
    .map(({ id }) => entryName(id))
  expect(names).toEqual(expect.arrayContaining(['A', 'A/-j', '100%']))
})

test('a real server has the live connections of ipvsadm -Ln, its virtual server their sum', () => {
  const list = readFileSync(recordingPath('v1.30.3/ipvs/web-lb/ipvsadm-ln'), 'utf8')
  const web = recordedNodes.find(({ path }) => path === 'v1.30.3/ipvs/web-lb')?.read().state
  const listed = parseIpvsadmList(
    list.replaceAll(/10\.244\.(.*?)1 {6}0 {10}0 /g, '10.244.$11      3          4 '),
  )
  const servers = web?.virtualServers ?? []
  expect(listed.size).toBe(servers.flatMap(({ realServers }) => realServers).length)
  const entries = [
    ...holdingEntries(holdingsOf('worker', web ?? empty, { mode: 'ipvs', connections: listed })),
  ]
  const byId = new Map(entries.map((entry) => [entry.id, entry]))
  const server = byId.get('ipvs/TCP 172.18.255.200:80')
  expect(server?.connections).toEqual({ active: 6, inactive: 8 })
  expect(server?.children?.map(({ text }) => text)).toEqual([
    '-> 10.244.1.6:80 Masq 1',
    '-> 10.244.2.4:80 Masq 1',
  ])
  expect(byId.get('ipvs/TCP 10.96.0.1:443')?.connections).toEqual({ active: 0, inactive: 0 })
})

test('tables of other programs are listed after those of kube-proxy', () => {
  const guard = { family: 'inet', name: 'guard', sets: new Map(), maps: new Map() } as const
  const chains = new Map([['forward', { rules: [{ text: 'drop' }] }]])
  const entries = [
    ...holdingEntries(holdingsOf('worker', { ...empty, foreignNftables: [{ ...guard, chains }] })),
  ]
  expect(entries.map(({ id }) => id)).toContain('nftables/inet guard/chain forward/drop')
})
