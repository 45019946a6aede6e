// What is not kube-proxy's on a node, but decides what becomes of Service packets.

import { describe, expect, test } from 'vitest'
import { evaluate } from '../../grading/evaluate.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { noise } from '../../instructors/mutation/noise.ts'
import { breakFile, flushedCapture } from './solved-capture.ts'

const NODE = 'k8s-guide-worker'

const taking = (capture = flushedCapture()) =>
  evaluate(new Snapshot(capture).node(NODE), 'ipvs').differences.filter(
    ({ interferes }) => interferes,
  )

/**
 * The node with a rule on top of a chain of another table, which is put there where it is missing.
 */
const withRule = (table: string, rule: string) =>
  breakFile(flushedCapture(), NODE, 'iptables-save', (text) => {
    const chain = rule.split(' ')[1]
    const own = `*${table}\n:${chain} ACCEPT [0:0]\n${rule}\nCOMMIT\n`
    const first = new RegExp(`^\\*${table}$.*?\\n(?=(?:\\[\\d+:\\d+\\] )?-A |COMMIT)`, 'ms')
    return first.test(text) ? text.replace(first, (head) => `${head}${rule}\n`) : `${own}${text}`
  })

describe('foreign rules', () => {
  test('a correct node has no foreign rule that affects Service packets', () =>
    expect(taking()).toEqual([]))

  test.each([
    [
      'mangle',
      '-A PREROUTING -p tcp -m statistic --mode random --probability 0.10000000009 -j DROP',
    ],
    ['mangle', '-A PREROUTING -d 10.96.0.0/16 -j DROP'],
    ['mangle', '-A OUTPUT -d 10.96.0.10/32 -p udp -m udp --dport 53 -j DROP'],
    ['mangle', '-A FORWARD -p tcp -m limit --limit 5/sec -j DROP'],
    ['mangle', '-A POSTROUTING -p tcp -j MARK --set-xmark 0x0/0xffffffff'],
    ['mangle', '-A PREROUTING -d 10.96.0.0/16 -j TTL --ttl-set 1'],
    ['raw', '-A PREROUTING -d 10.96.0.0/16 -j CT --notrack'],
    ['raw', '-A OUTPUT -j NOTRACK'],
    ['filter', '-A FORWARD -d 10.244.0.0/16 -j REJECT --reject-with icmp-port-unreachable'],
    ['nat', '-A PREROUTING -d 10.96.0.1/32 -p tcp -j DNAT --to-destination 192.0.2.1:80'],
    ['nat', '-A OUTPUT -d 10.96.0.0/16 -p tcp -j REDIRECT --to-ports 8080'],
  ])('%s %s is found', (table, rule) => {
    const [, chain] = rule.split(' ')
    const [found, ...more] = taking(withRule(table, rule))
    expect(found).toMatchObject({ kind: 'stale', where: { table, chain } })
    expect(more).toEqual([])
  })

  test.each([
    ['mangle', '-A PREROUTING -d 10.96.0.0/16 -j DROP', '(DROP) takes packets to'],
    ['raw', '-A OUTPUT -j NOTRACK', '(NOTRACK) stops the tracking of packets to'],
    ['raw', '-A PREROUTING -j CT --notrack', '(NOTRACK) stops the tracking of packets to'],
    ['mangle', '-A POSTROUTING -j MARK --set-xmark 0x0/0xffffffff', '(MARK) changes the mark of'],
  ])('%s %s is described by its effect', (table, rule, effect) =>
    expect(taking(withRule(table, rule))[0]?.text).toContain(effect),
  )

  test.each([
    ['blackhole 10.244.2.0/24', 'DROP', '(DROP) takes packets to'],
    ['unreachable 10.244.2.0/24', 'REJECT', '(REJECT) takes packets to'],
  ])('the route %s to the Pods of another node is found', (route, verdict, effect) => {
    const withRoute = breakFile(flushedCapture(), NODE, 'ip-route', (text) =>
      text.replace(/^10\.244\.2\.0\/24 .*$/m, route),
    )
    const [found, ...more] = taking(withRoute)
    expect(more).toEqual([])
    expect(found?.actual).toBe(route)
    expect(found?.text).toContain(`the route "${route}" ${effect}`)
    expect(found?.text).toContain(verdict)
  })

  test('a blackhole route that no Service uses is ignored', () =>
    expect(
      taking(
        breakFile(flushedCapture(), NODE, 'ip-route', (text) => `${text}blackhole 192.0.2.0/24\n`),
      ),
    ).toEqual([]))

  test.each([
    ['mangle', '-A PREROUTING -d 192.0.2.0/24 -j DROP'],
    ['mangle', '-A PREROUTING -p tcp -m tcp --dport 22 -m limit --limit 5/sec -j DROP'],
    ['mangle', '-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff'],
    ['mangle', '-A PREROUTING -j MARK --set-xmark 0x80000/0xff0000'],
    ['raw', '-A PREROUTING -p udp -m udp --dport 4789 -j NOTRACK'],
    ['filter', '-A INPUT -s 203.0.113.66/32 -j DROP'],
    ['mangle', '-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu'],
  ])('%s %s is ignored', (table, rule) => expect(taking(withRule(table, rule))).toEqual([]))

  const foreign = noise(1).filter(({ what }) => what.startsWith('rules of'))
  test.each(foreign)('$what', ({ apply }) => expect(taking(apply(flushedCapture()))).toEqual([]))
})

test('a veth that is down is reported, a dummy device that is down is not', () => {
  const link = (ifname: string, info_kind: string, flags: string[]) => ({
    ifindex: 91,
    ifname,
    flags,
    operstate: 'DOWN',
    linkinfo: { info_kind },
    addr_info: [],
  })
  const withLinks = (...links: object[]) =>
    breakFile(flushedCapture(), NODE, 'ip-addr.json', (text) =>
      JSON.stringify([...JSON.parse(text), ...links]),
    )
  const down = link('veth1f00', 'veth', ['BROADCAST', 'MULTICAST'])
  expect(taking(withLinks(down))).toMatchObject([{ where: { link: 'veth1f00' }, kind: 'wrong' }])
  expect(taking(withLinks({ ...down, flags: ['BROADCAST', 'MULTICAST', 'UP'] }))).toEqual([])
  expect(taking(withLinks(link('dummy0', 'dummy', ['BROADCAST', 'NOARP'])))).toEqual([])
})

/** What `nft -j list table` 1.0.6 prints of a table of another program with one base chain. */
const guard = (family: string, hook: string, expr: object[], policy = 'accept') => {
  const chain = { family, table: 'guard', name: hook, type: 'filter', hook, prio: -150, policy }
  const rule = { family, table: 'guard', chain: hook, expr }
  const items = [
    { table: { family, name: 'guard' } },
    { chain },
    ...(expr.length > 0 ? [{ rule }] : []),
  ]
  return `${JSON.stringify({ nftables: items })}\n`
}
const matches = (protocol: string, field: string, right: unknown) => ({
  match: { op: '==', left: { payload: { protocol, field } }, right },
})
const prefix = (addr: string, len: number) => ({ prefix: { addr, len } })
const isTcp = { match: { op: '==', left: { meta: { key: 'l4proto' } }, right: 'tcp' } }
const withTables = (...tables: string[]) => {
  const capture = flushedCapture()
  const nodes = capture.nodes.map((node) =>
    node.name === NODE
      ? { ...node, files: new Map([...node.files, ['nft-others.json', tables.join('')]]) }
      : node,
  )
  return { ...capture, nodes }
}

describe('tables of other programs in nf_tables', () => {
  const oneInTen = {
    match: { op: '<', left: { numgen: { mode: 'random', mod: 10, offset: 0 } }, right: 1 },
  }
  test.each([
    ['drops one packet in ten', 'inet', 'prerouting', [isTcp, oneInTen, { drop: null }]],
    [
      'drops DNS',
      'ip',
      'output',
      [matches('ip', 'daddr', '10.96.0.10'), matches('udp', 'dport', 53), { drop: null }],
    ],
    [
      'rejects',
      'inet',
      'forward',
      [
        matches('ip', 'daddr', prefix('10.244.0.0', 16)),
        { reject: { type: 'icmp', expr: 'port-unreachable' } },
      ],
    ],
    [
      'does not track',
      'ip',
      'prerouting',
      [matches('ip', 'daddr', prefix('10.96.0.0', 16)), { notrack: null }],
    ],
    [
      'clears the mark',
      'inet',
      'postrouting',
      [{ mangle: { key: { meta: { key: 'mark' } }, value: 0 } }],
    ],
    [
      'clears the mark, then saves it in the connection',
      'inet',
      'postrouting',
      [
        { mangle: { key: { meta: { key: 'mark' } }, value: 0 } },
        { mangle: { key: { ct: { key: 'mark' } }, value: 1 } },
      ],
    ],
    [
      'limits',
      'ip',
      'prerouting',
      [isTcp, { limit: { rate: 5, burst: 5, per: 'second' } }, { drop: null }],
    ],
    [
      'redirects',
      'ip',
      'prerouting',
      [matches('ip', 'daddr', prefix('10.96.0.0', 16)), { redirect: { port: 8080 } }],
    ],
  ])('one that %s is found', (_what, family, hook, expr) => {
    const [found, ...more] = taking(withTables(guard(family, hook, expr)))
    expect(found).toMatchObject({
      kind: 'stale',
      where: { nft: `${family} guard`, part: `chain ${hook}` },
    })
    expect(more).toEqual([])
  })

  test('a policy that drops is found', () =>
    expect(taking(withTables(guard('inet', 'input', [], 'drop')))[0]?.text).toMatch(
      /inet guard input: its policy \(DROP\)/,
    ))

  test.each([
    ['another network', 'ip', [matches('ip', 'daddr', prefix('192.0.2.0', 24)), { drop: null }]],
    ['another port', 'inet', [matches('tcp', 'dport', 22), { drop: null }]],
    ['IPv6', 'ip6', [{ drop: null }]],
    ['a counter', 'inet', [isTcp, { counter: { packets: 3, bytes: 180 } }]],
    ['Ethernet frames', 'bridge', [{ drop: null }]],
  ])('one about %s affects no Service', (_what, family, expr) =>
    expect(taking(withTables(guard(family, 'prerouting', expr)))).toEqual([]),
  )

  test('several tables are read, and an invalid listing is a fault of the capture', () => {
    const tables = withTables(
      guard('ip', 'prerouting', []),
      guard('inet', 'forward', [{ drop: null }]),
    )
    expect(taking(tables)).toHaveLength(1)
    expect(() => taking(withTables('{"nftables": ['))).toThrow(/nft-others.json/)
  })
})
