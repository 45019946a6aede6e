import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseNftList } from '../../dataplane/nft-list.ts'
import type { NftChain, NftTable } from '../../dataplane/nft-table.ts'
import { printNftTransactions } from '../../dataplane/nft-transaction.ts'
import { ParseError } from '../../dataplane/program-output.ts'

const listing = readFileSync(
  join(import.meta.dirname, '../../data/nft/web-lb-source-ranges-v1.34.json'),
  'utf8',
)

const item = (table: object) =>
  JSON.stringify({ nftables: [{ metainfo: { version: '1.1.1' } }, table] })
const rule = (...expr: unknown[]) =>
  JSON.stringify({
    nftables: [
      { table: { family: 'ip', name: 'kube-proxy' } },
      { chain: { family: 'ip', table: 'kube-proxy', name: 'c' } },
      { rule: { family: 'ip', table: 'kube-proxy', chain: 'c', expr } },
    ],
  })
const textOf = (...expr: unknown[]) =>
  parseNftList(rule(...expr))[0]?.chains.get('c')?.rules[0]?.text

describe('nft -j list', () => {
  test('reads base chains, rules in nft syntax, sets and verdict maps', () => {
    const [ip, ip6] = parseNftList(listing)
    expect([ip?.family, ip6?.family]).toEqual(['ip', 'ip6'])
    expect(ip?.chains.get('nat-postrouting')).toEqual({
      base: { type: 'nat', hook: 'postrouting', priority: 100 },
      rules: [{ text: 'jump masquerading' }],
    })
    expect(ip?.chains.get('masquerading')?.rules[0]?.text).toBe(
      'meta mark & 0x00004000 == 0x00000000 return',
    )
    expect(ip?.sets.get('nodeport-ips')?.elements).toEqual(new Set(['172.18.0.3']))
    expect(ip?.maps.get('service-ips')?.elements.get('10.96.0.1 . tcp . 443')).toBe(
      'goto service-2QRHZV4L-default/kubernetes/tcp/https',
    )
  })

  test.each([
    [[{ counter: { packets: 7, bytes: 9 } }, { drop: null }], 'drop'],
    [[{ reject: { type: 'icmp', expr: 'port-unreachable' } }], 'reject'],
    [[{ reject: null }], 'reject'],
    [[{ reject: { type: 'tcp reset' } }], 'reject with tcp reset'],
    [[{ reject: { type: 'icmp', expr: 'admin-prohibited' } }], 'reject with icmp admin-prohibited'],
    [[{ dnat: { addr: 'fd00::1', port: 80 } }], 'dnat to [fd00::1]:80'],
    [
      [{ dnat: { addr: '10.0.0.1', port: 80, flags: ['random', 'persistent'] } }],
      'dnat to 10.0.0.1:80 random,persistent',
    ],
    [[{ masquerade: null }], 'masquerade'],
    [[{ redirect: null }], 'redirect'],
    [[{ redirect: { port: 8080, flags: 'random' } }], 'redirect to :8080 random'],
    [[{ redirect: { flags: ['random', 'persistent'] } }], 'redirect random,persistent'],
    [
      [{ masquerade: { port: { range: [1024, 2048] }, flags: 'fully-random' } }],
      'masquerade to :1024-2048 fully-random',
    ],
    [[{ log: null }, { drop: null }], 'log drop'],
    [[{ log: { prefix: 'seen', level: 'warn' } }, { drop: null }], 'log prefix "seen" drop'],
    [
      [{ log: { group: 2, prefix: 'a b', 'queue-threshold': 20, snaplen: 64 } }],
      'log prefix "a b" group 2 snaplen 64 queue-threshold 20',
    ],
    [
      [{ log: { level: 'info', flags: ['tcp options', 'skuid'] } }],
      'log level info flags tcp options,skuid',
    ],
    [[{ snat: { addr: '192.0.2.1' } }], 'snat to 192.0.2.1'],
    [
      [
        {
          match: {
            op: '==',
            left: { ct: { key: 'ip daddr', dir: 'original' } },
            right: '10.96.0.7',
          },
        },
        { drop: null },
      ],
      'ct original ip daddr 10.96.0.7 drop',
    ],
    [
      [
        {
          match: { op: '==', left: { meta: { key: 'iifname' } }, right: { set: ['eth0', 'cni0'] } },
        },
      ],
      'iifname { cni0, eth0 }',
    ],
    [
      [{ match: { op: '!=', left: { meta: { key: 'iifname' } }, right: 'cni0' } }],
      'iifname != "cni0"',
    ],
    [
      [{ match: { op: '==', left: { ct: { key: 'state' } }, right: ['new', 'related'] } }],
      'ct state new,related',
    ],
    [
      [
        {
          match: {
            op: '==',
            left: { payload: { protocol: 'ip', field: 'saddr' } },
            right: { set: ['10.0.0.9', '10.0.0.1'] },
          },
        },
      ],
      'ip saddr { 10.0.0.1, 10.0.0.9 }',
    ],
    [
      [{ match: { op: '==', left: 'x', right: { set: [{ range: ['10.0.0.2', '10.0.0.1'] }] } } }],
      'x { 10.0.0.2-10.0.0.1 }',
    ],
    [
      [
        {
          set: {
            op: 'update',
            elem: { payload: { protocol: 'ip', field: 'saddr' } },
            set: '@seen',
            stmt: [
              { limit: { rate: 10, per: 'second', inv: true } },
              { counter: { packets: 1, bytes: 60 } },
            ],
          },
        },
        { drop: null },
      ],
      'update @seen { ip saddr limit rate over 10/second } drop',
    ],
    [
      [
        {
          set: {
            op: 'update',
            elem: { elem: { val: { payload: { protocol: 'ip', field: 'saddr' } }, timeout: 5 } },
            set: '@seen',
          },
        },
      ],
      'update @seen { ip saddr timeout 5s }',
    ],
    [
      [{ match: { op: '==', left: { meta: { key: 'l4proto' } }, right: 6 } }, { drop: null }],
      'meta l4proto tcp drop',
    ],
    [[{ limit: { rate: 10, burst: 5, per: 'second' } }], 'limit rate 10/second'],
    [[{ limit: { rate: 10, burst: 7, per: 'second' } }], 'limit rate 10/second burst 7 packets'],
    [
      [
        {
          limit: {
            rate: 1,
            burst: 0,
            per: 'second',
            inv: true,
            rate_unit: 'mbytes',
            burst_unit: 'bytes',
          },
        },
      ],
      'limit rate over 1 mbytes/second',
    ],
    [
      [{ limit: { rate: 1, burst: 3, per: 'second', rate_unit: 'kbytes', burst_unit: 'kbytes' } }],
      'limit rate 1 kbytes/second burst 3 kbytes',
    ],
    [[{ xt: null }], '{"xt":null}'],
    [[{ constructor: { x: 1 } }], '{"constructor":{"x":1}}'],
  ])('%j is %s', (expr, text) => expect(textOf(...expr)).toBe(text))

  test('reads elements with a comment or an expiry time', () => {
    const key = { elem: { val: { concat: ['10.96.0.9', 'tcp', 80] }, comment: 'default/web' } }
    const map = {
      family: 'ip',
      table: 'kube-proxy',
      name: 'no-endpoint-services',
      type: ['ipv4_addr', 'inet_proto'],
    }
    const verdict = { goto: { target: 'reject-chain' } }
    const set = {
      family: 'ip',
      table: 'kube-proxy',
      name: 'affinity-x',
      type: 'ipv4_addr',
      flags: ['timeout'],
      timeout: 600,
    }
    const [table] = parseNftList(
      JSON.stringify({
        nftables: [
          { map: { ...map, map: 'verdict', elem: [[key, verdict]] } },
          { set: { ...set, elem: [{ elem: { val: '10.244.1.9', expires: 599 } }] } },
        ],
      }),
    )
    expect(table?.maps.get('no-endpoint-services')?.elements).toEqual(
      new Map([['10.96.0.9 . tcp . 80', 'goto reject-chain']]),
    )
    expect(table?.sets.get('affinity-x')).toEqual({
      type: 'ipv4_addr',
      flags: ['timeout'],
      timeout: 600,
      elements: new Set(['10.244.1.9']),
    })
  })

  test('reads elements with the number of a protocol: nft prints it on a node without /etc/protocols', () => {
    const type = ['ipv4_addr', 'inet_proto', 'inet_service']
    const [table] = parseNftList(
      item({
        map: {
          family: 'ip',
          table: 't',
          name: 'm',
          type,
          elem: [[{ concat: ['10.0.0.6', 17, 6] }, { drop: null }]],
        },
      }),
    )
    expect([...(table?.maps.get('m')?.elements.keys() ?? [])]).toEqual(['10.0.0.6 . udp . 6'])
  })

  test('ignores other families and objects, and rules of unknown chains', () => {
    expect(parseNftList(item({ table: { family: 'bridge', name: 'firewalld' } }))).toEqual([])
    expect(parseNftList(item({ flowtable: { family: 'ip', name: 'f', table: 't' } }))).toEqual([])
    expect(
      parseNftList(item({ rule: { family: 'ip', table: 't', chain: 'gone', expr: [] } }))[0]?.chains
        .size,
    ).toBe(0)
    expect(parseNftList('{"nftables":[]}')).toEqual([])
  })

  test.each([
    ['', /not JSON/],
    ['table ip kube-proxy {', /not JSON/],
    ['[]', /the text is not output of nft/],
    [item({ chain: { family: 'ip', table: 'kube-proxy' } }), /nftables\.1\.chain\.name/],
    [item({ table: { family: 'ip', name: 'x'.repeat(300) } }), /nftables\.1\.table\.name/],
    [
      rule({ match: { op: '==', left: { concat: {} }, right: 1 } }),
      /not of the form that nft prints/,
    ],
    [
      rule({ match: { op: '==', left: 1, right: { '&': { x: 1 } } } }),
      /not of the form that nft prints/,
    ],
    [
      rule({ vmap: { key: { payload: { protocol: { toString: 1 } } } } }),
      /not of the form that nft prints/,
    ],
    [rule(JSON.parse(`${'{"&":['.repeat(60)}1${']}'.repeat(60)}`)), /nested too deeply|\{/],
  ])('refuses %.40s with the place of the fault, or shows it as JSON', (text, message) => {
    let output = ''
    try {
      output = JSON.stringify(parseNftList(text)[0]?.chains.get('c'))
    } catch (error) {
      expect(error).toBeInstanceOf(ParseError)
      output = (error as Error).message
    }
    expect(output).toMatch(message)
  })
})

test('an expression that is nested too deeply is refused', () => {
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { concat: [deep(levels - 1)] })
  const nested = { match: { op: '==', left: { meta: { key: 'l4proto' } }, right: deep(200) } }
  expect(() => parseNftList(rule(nested))).toThrow(/nested too deeply/)
})

test('any JSON is read or refused with a ParseError', () => {
  const parsed = JSON.parse(listing)
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom({ set: [] }, { elem: {} }, [], null, 'goto x'),
  )
  const spoiled = fc
    .tuple(fc.nat(parsed.nftables.length - 1), fc.string(), anything)
    .map(([at, key, value]) => {
      const copy = structuredClone(parsed)
      const kind = Object.keys(copy.nftables[at])[0] ?? ''
      const keys = Object.keys(copy.nftables[at][kind])
      copy.nftables[at][kind][keys[key.length % keys.length] ?? key] = value
      return JSON.stringify(copy)
    })
  fc.assert(
    fc.property(fc.oneof(spoiled, fc.json()), (text) => {
      try {
        return Array.isArray(parseNftList(text))
      } catch (error) {
        return error instanceof ParseError
      }
    }),
    { numRuns: 150 },
  )
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => typeof textOf(value) === 'string'),
  )
})

test('a large change is split into transactions that refer only to existing objects', () => {
  const [small] = parseNftList(listing) as [NftTable]
  expect(printNftTransactions(undefined, small)).toHaveLength(1)
  expect(printNftTransactions(small, small)).toEqual([])
  const names = Array.from({ length: 2000 }, (_, index) => `service-${index}`)
  const chains = names.map(
    (name) => [name, { rules: [{ text: 'ip saddr != 10.244.0.0/16 drop' }] }] as [string, NftChain],
  )
  const elements = new Map(
    names.map((name, index) => [`10.96.${index >> 8}.${index & 255} . tcp . 80`, `goto ${name}`]),
  )
  const large: NftTable = {
    ...small,
    chains: new Map(chains),
    maps: new Map([['m', { type: 'any', elements }]]),
  }
  const scripts = printNftTransactions(undefined, large)
  expect(Math.max(...scripts.map(({ length }) => length))).toBeLessThan(60_000)
  const lines = scripts.join('').split('\n')
  const last = (start: string) => lines.findLastIndex((line) => line.startsWith(start))
  const first = (start: string) => lines.findIndex((line) => line.startsWith(start))
  expect(lines).toContain('add map ip kube-proxy m { type any : verdict; }')
  expect(last('add chain ')).toBeLessThan(first('add rule '))
  expect(last('add map ')).toBeLessThan(first('add element '))
  const added = lines.flatMap((line) =>
    line.startsWith('add element ip kube-proxy m ') ? line.split(',') : [],
  )
  expect(added).toHaveLength(2000)
})
