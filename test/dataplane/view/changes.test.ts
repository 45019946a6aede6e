import { expect, test } from 'vitest'
import { addMoment, type Change, changesBetween } from '../../../dataplane/view/changes.ts'
import { holdingEntries, holdingsOf, type NodeHoldings } from '../../../dataplane/view/holdings.ts'
import { node } from '../made-node.ts'
import { threeVersions, wholeNodes } from './nodes.ts'

/** Each entry's id with its text, without the groups. */
const texts = (holdings: NodeHoldings) =>
  new Map(
    [...holdingEntries(holdings)]
      .filter(({ kind }) => kind !== 'group')
      .map(({ id, text }) => [id, text]),
  )
const short = (changes: readonly Change[]) =>
  changes.map(({ change, place, text }) => `${change} ${place}: ${text}`)

test('the changes between two recorded nodes turn one into the other, and equal nodes have none', () => {
  const all = [
    ...threeVersions.map(({ path, read }) => ({ path, state: read().state })),
    ...wholeNodes,
  ]
  let before = holdingsOf('worker', (all[0] as (typeof all)[0]).state)
  for (const { path, state } of all) {
    const after = holdingsOf('worker', state)
    expect(changesBetween(after, holdingsOf('worker', state)), path).toEqual([])
    const result = texts(before)
    const changes = changesBetween(before, after)
    for (const { id, change, text } of changes) {
      const plain = text.slice(text.indexOf('-> '))
      if (change === 'removed') result.delete(id)
      else result.set(id, id.startsWith('ipvs/') && text.includes('-> ') ? plain : text)
    }
    expect(
      changes.filter(({ before: old, change }) => (old !== undefined) !== (change === 'changed')),
    ).toEqual([])
    expect(new Map([...result].sort()), path).toEqual(new Map([...texts(after)].sort()))
    before = after
  }
})

test('a moved rule is a change, a counter is not', () => {
  const before = node({
    nat: ['[1:60] -A PREROUTING -j A', '-A PREROUTING -j B', '-A PREROUTING -j C'],
  })
  const after = node({
    nat: ['-A PREROUTING -j B', '-A PREROUTING -j C', '[9:540] -A PREROUTING -j A'],
  })
  const changes = changesBetween(holdingsOf('worker', before), holdingsOf('worker', after))
  expect(short(changes)).toEqual(['moved nat PREROUTING: -A PREROUTING -j A'])
})

test('a change names the place and the text before', () => {
  const sets = 'create S hash:ip\nadd S 10.96.0.1\n'
  const server = (weight: number) =>
    `-A -t 10.96.0.1:443 -s rr\n-a -t 10.96.0.1:443 -r 10.244.2.7:6443 -m -w ${weight}\n`
  const before = holdingsOf('worker', node({}, server(1)), { mode: 'iptables' })
  const after = holdingsOf(
    'worker',
    node({ nat: [':KUBE-X - [0:0]', '-A KUBE-X -j RETURN'] }, server(0), sets),
    {
      mode: 'ipvs',
    },
  )
  const changes = changesBetween(before, after)
  expect(short(changes)).toEqual([
    'changed kube-proxy: mode ipvs',
    'added iptables: *nat',
    ...['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'].map(
      (chain) => `added nat: :${chain} ACCEPT`,
    ),
    'added nat: :KUBE-X -',
    'added nat KUBE-X: -A KUBE-X -j RETURN',
    'added ipset: S hash:ip',
    'added set S: 10.96.0.1',
    'changed IPVS: TCP 10.96.0.1:443 -> 10.244.2.7:6443 Masq 0',
  ])
  expect(changes.at(-1)?.before).toBe('TCP 10.96.0.1:443 -> 10.244.2.7:6443 Masq 1')
})

test('the timeline keeps the latest moments under their numbers, and the last known state of a node that cannot be read', () => {
  const rules = (count: number) =>
    holdingsOf(
      'worker',
      node({ nat: [...Array(count)].map((_, at) => `-A OUTPUT -d 10.0.0.${at}/32 -j A`) }),
    )
  const silent = { node: 'worker', trouble: 'no answer', groups: [] }
  let moments = addMoment([], 0, [rules(1)])
  expect(moments[0]?.changes).toEqual([])
  moments = addMoment(moments, 1, [rules(1)])
  expect(moments).toHaveLength(1)
  moments = addMoment(moments, 2, [silent])
  expect(moments).toMatchObject([
    { number: 0, at: 0, nodes: [{ ...rules(1), trouble: 'no answer' }], changes: [] },
  ])
  moments = addMoment(moments, 3, [rules(2)])
  expect(moments.at(-1)?.number).toBe(1)
  expect(short(moments.at(-1)?.changes ?? [])).toEqual([
    'added nat OUTPUT: -A OUTPUT -d 10.0.0.1/32 -j A',
  ])
  for (let at = 3; at < 130; at++) moments = addMoment(moments, at, [rules(at)])
  expect(moments).toHaveLength(100)
  const [first, last] = [moments[0], moments.at(-1)]
  expect((last?.number ?? 0) - (first?.number ?? 0)).toBe(99)
  expect(first?.number).toBeGreaterThan(0)
  expect(last?.nodes).toEqual([rules(129)])
})
