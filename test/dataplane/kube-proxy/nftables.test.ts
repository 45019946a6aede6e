// Mode nftables: names and rules as genuine listings show them, what a kernel made of predictions,
// and the comparison.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareNftables } from '../../../dataplane/compare/compare-nftables.ts'
import { contains } from '../../../dataplane/ip-address.ts'
import { defaultConfig } from '../../../dataplane/kube-proxy/config.ts'
import { isServicePortChain } from '../../../dataplane/kube-proxy/nftables/builder.ts'
import {
  branchesOf,
  describeBranch,
} from '../../../dataplane/kube-proxy/nftables/service-branches.ts'
import { SUPPORTED_VERSIONS } from '../../../dataplane/kube-proxy/versions.ts'
import {
  anonymousSetText,
  mergeAddresses,
  withSameAddresses,
  writtenSetText,
} from '../../../dataplane/nft-addresses.ts'
import { parseNftList } from '../../../dataplane/nft-list.ts'
import type { NftTable } from '../../../dataplane/nft-table.ts'
import { type ClusterObjects, readObjects } from '../../../dataplane/objects.ts'
import { PredictError, predict } from '../../../dataplane/predict.ts'
import { NODE, objectsAt, recordedConfig } from '../recordings.ts'
import { randomObjects } from './random-objects.ts'

const LAYOUTS = ['1.31', '1.33.6', '1.34', '1.36']

const tables = (objects: ClusterObjects, version: string, config = recordedConfig()): NftTable[] =>
  predict(objects, { node: NODE, mode: 'nftables', version, config }).nftables ?? []
const ipTable = (...input: Parameters<typeof tables>): NftTable => tables(...input)[0] as NftTable
/** One Service whose endpoints are all on the node of the prediction, or elsewhere. */
function clusterOf(
  path: string,
  clusterIP: string,
  port: { name: string; protocol: string; port: number },
  targetPort: number,
  addresses: string[],
  { nodeName = NODE, ...spec }: { nodeName?: string; internalTrafficPolicy?: string } = {},
): ClusterObjects {
  const [namespace, name = ''] = path.split('/')
  const labels = { 'kubernetes.io/service-name': name }
  const endpoints = addresses.map((address) => ({
    addresses: [address],
    nodeName,
    conditions: { ready: true },
  }))
  const items = [
    {
      kind: 'Node',
      metadata: { name: NODE },
      status: { addresses: [{ type: 'InternalIP', address: '172.18.0.3' }] },
    },
    {
      kind: 'Service',
      metadata: { namespace, name },
      spec: { clusterIP, ports: [{ ...port, targetPort }], ...spec },
    },
    {
      kind: 'EndpointSlice',
      metadata: { namespace, name: `${name}-1`, labels },
      addressType: 'IPv4',
      ports: [{ ...port, port: targetPort }],
      endpoints,
    },
  ]
  return readObjects({ kind: 'List', items }).objects
}

const elsewhere = clusterOf(
  'default/web',
  '10.96.0.7',
  { name: '', protocol: 'TCP', port: 80 },
  80,
  ['10.244.2.9'],
  {
    nodeName: 'other',
    internalTrafficPolicy: 'Local',
  },
)

/** Whether `10.0.0.0/24`, `10.0.0.1` or `10.0.0.1-10.0.0.9` holds an address of 10.0.0.0/24. */
function covers(text: string, address: string): boolean {
  const last = (one: string) => Number(one.split('.').at(-1))
  const [from = '', to] = text.split('-')
  if (to !== undefined) return last(from) <= last(address) && last(address) <= last(to)
  return contains(text, address)
}

const texts = (table: NftTable, chain: string) =>
  table.chains.get(chain)?.rules.map(({ text }) => text)
const differences = (expected: NftTable[], actual: NftTable[]) =>
  compareNftables(expected, actual, { mode: 'nftables' }).map(
    ({ kind, text }) => `${kind}: ${text}`,
  )

describe('names and rules of genuine clusters', () => {
  const dns = clusterOf(
    'kube-system/kube-dns',
    '10.43.0.10',
    { name: 'dns', protocol: 'UDP', port: 53 },
    53,
    ['10.42.0.171'],
  )

  test("chains of Services and endpoints have kube-proxy's names", () => {
    const table = ipTable(dns, '1.33', { ...recordedConfig(), clusterCIDR: '10.42.0.0/16' })
    expect(table.maps.get('service-ips')?.elements).toEqual(
      new Map([['10.43.0.10 . udp . 53', 'goto service-FY5PMXPG-kube-system/kube-dns/udp/dns']]),
    )
    expect(texts(table, 'service-FY5PMXPG-kube-system/kube-dns/udp/dns')).toEqual([
      'ip daddr 10.43.0.10 udp dport 53 ip saddr != 10.42.0.0/16 jump mark-for-masquerade',
      'numgen random mod 1 vmap { 0 : goto endpoint-S4FSIJI2-kube-system/kube-dns/udp/dns__10.42.0.171/53 }',
    ])
    expect(texts(table, 'endpoint-S4FSIJI2-kube-system/kube-dns/udp/dns__10.42.0.171/53')).toEqual([
      'ip saddr 10.42.0.171 jump mark-for-masquerade',
      'meta l4proto udp dnat to 10.42.0.171:53',
    ])
  })

  test('from 1.36 on all rules of a Service are in its own chain', () => {
    const http = { name: 'http', protocol: 'TCP', port: 80 }
    const api = clusterOf('kproxy-lab/backend-api', '10.100.192.23', http, 9898, [
      '10.244.0.10',
      '10.244.0.8',
    ])
    const table = ipTable(api, '1.36')
    expect(texts(table, 'service-YVSKLJHA-kproxy-lab/backend-api/tcp/http')).toEqual([
      'meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.244.0.10 . 9898, 1 : 10.244.0.8 . 9898 }',
    ])
    expect(table.sets.get('hairpin-connections')?.elements).toEqual(
      new Set(['10.244.0.10 . 10.244.0.10 . tcp . 9898', '10.244.0.8 . 10.244.0.8 . tcp . 9898']),
    )
    expect(texts(table, 'services')?.[0]).toBe(
      'ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000',
    )
    expect([...table.chains.keys()].filter(isServicePortChain)).toHaveLength(1)
  })

  test.each([
    ['1.31', 'filter-output', -110, ['service-endpoints-check', 'firewall-check']],
    ['1.31', 'filter-output-post-dnat', -90, ['cluster-ips-check']],
    ['1.34', 'filter-output', 0, ['service-endpoints-check', 'cluster-ips-check']],
    ['1.34', 'filter-prerouting-pre-dnat', -110, ['firewall-check']],
  ])('%s: %s has priority %i', (version, chain, priority, targets) => {
    const found = ipTable(dns, version).chains.get(chain)
    expect(found?.base?.priority).toBe(priority)
    expect(found?.rules.map(({ text }) => text)).toEqual(
      targets.map((target) => `ct state new jump ${target}`),
    )
  })
})

test('a prediction that nft loaded is listed with the predicted rules', () => {
  for (const [scenario, version] of [
    ['web-lb-source-ranges', 'v1.34'],
    ['web-affinity', 'v1.36'],
    ['x-lb-ranges-with-node', 'v1.34'],
  ] as const) {
    const file = join(import.meta.dirname, `../../../data/nft/${scenario}-${version}.json`)
    const current = parseNftList(readFileSync(file, 'utf8'))
    const expected = tables(objectsAt('objects', `${scenario}.json`), version)
    expect(differences(expected, current)).toEqual([])
    for (const { family, chains } of expected)
      for (const [name, { rules }] of chains)
        expect(
          current.find((table) => table.family === family)?.chains.get(name)?.rules,
          name,
        ).toEqual(rules)
  }
})

describe('branchesOf', () => {
  const ways = (
    objects: ClusterObjects,
    version: string,
    map: string,
    key: string,
    config = recordedConfig(),
  ) => {
    const table = ipTable(objects, version, config)
    return branchesOf(table, table.maps.get(map)?.elements.get(key) ?? 'none').map(describeBranch)
  }
  const NODE_PORT = 'tcp . 31730'
  const web = (scenario: string) => objectsAt('objects', `${scenario}.json`)

  test.each(LAYOUTS)(
    '%s: externalTrafficPolicy Local keeps the source address except for Pods and the node itself',
    (version) => {
      const [fromPod, fromNode, others] = ways(
        web('web-nodeport-local'),
        version,
        'service-nodeports',
        NODE_PORT,
      )
      expect(fromPod).toMatch(/^ip saddr 10\.244\.0\.0\/16: dnat to \S+ or \S+/)
      expect(fromNode).toMatch(
        /^fib saddr type local: dnat to .*, masqueraded if .*fib saddr type local/,
      )
      expect(others).toMatch(/dnat to 10\.244\.1\.\d+:80/)
      expect(others).not.toMatch(/ or 10\.244\.2\./)
    },
  )

  test.each(LAYOUTS)('%s: policy Cluster masquerades every packet to a node port', (version) => {
    expect(ways(web('web-nodeport'), version, 'service-nodeports', NODE_PORT)).toEqual([
      expect.stringMatching(/^dnat to \S+ or \S+, masqueraded$/),
    ])
  })

  test.each(LAYOUTS)(
    '%s: session affinity is found, and packets from outside the source ranges are dropped',
    (version) => {
      const [first = ''] = ways(
        web('web-affinity'),
        version,
        'service-ips',
        '10.96.119.228 . tcp . 80',
      ).slice(-1)
      expect(first).toMatch(/session affinity for 600 s$/)
      expect(
        ways(web('web-lb-source-ranges'), version, 'firewall-ips', '172.18.255.200 . tcp . 80'),
      ).toEqual(['ip saddr != { 198.51.100.0/25, 203.0.113.0/24 }: drop'])
    },
  )

  test.each(LAYOUTS)(
    '%s: packets are rejected without endpoints and dropped without local endpoints',
    (version) => {
      expect(
        ways(web('web-no-endpoints'), version, 'no-endpoint-services', '10.96.119.228 . tcp . 80'),
      ).toEqual(['reject'])
      const { maps } = ipTable(elsewhere, version)
      expect([...(maps.get('no-endpoint-services')?.elements.values() ?? [])]).toEqual(['drop'])
      expect(maps.get('service-ips')?.elements.size).toBe(0)
    },
  )
})

describe('anonymous sets of addresses', () => {
  const ranges = (...members: string[]) => `ip saddr != ${anonymousSetText(members)} drop`

  test('are sorted, without overlaps and with adjacent ranges joined, as nft lists them', () => {
    expect(ranges('203.0.113.0/24', '172.18.0.0/16', '172.18.255.200')).toBe(
      'ip saddr != { 172.18.0.0/16, 203.0.113.0/24 } drop',
    )
    expect(mergeAddresses(['10.0.0.128/25', '10.0.0.0/25'])).toEqual(['10.0.0.0/24'])
    expect(mergeAddresses(['10.0.1.0/24', '10.0.2.0/24', '10.0.3.0'])).toEqual([
      '10.0.1.0-10.0.3.0',
    ])
    expect(mergeAddresses(['fd00::/64', 'fd00:0:0:1::/64', '2001:db8::1'])).toEqual([
      '2001:db8::1',
      'fd00::/63',
    ])
    expect(mergeAddresses(['0.0.0.0/0', '172.18.255.200'])).toEqual(['0.0.0.0/0'])
    expect(mergeAddresses(['new', 'established'])).toBeUndefined()
    // The recordings of y-lb-ranges-odd show both: a set that nft joined to one range, and one that
    // was written with one.
    expect(writtenSetText(['203.0.113.0/24', '203.0.0.0/16'])).toBe('{ 203.0.0.0/16 }')
    expect(writtenSetText(['203.0.113.9/24'])).toBe('203.0.113.0/24')
    const same = ['{ 203.0.0.0/16 }', '{ 203.0.113.0/24, 203.0.0.0/16 }', '203.0.0.0/16']
    expect(new Set(same.map((set) => withSameAddresses(`ip saddr != ${set} drop`))).size).toBe(1)
    expect(withSameAddresses('numgen random mod 1 vmap { 0 : drop }')).toBe(
      'numgen random mod 1 vmap { 0 : drop }',
    )
  })

  test('contain the same addresses for every division into ranges', () => {
    const part = fc.tuple(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 24, max: 32 }))
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 8 }), (parts) => {
        const members = parts.map(([host, length]) => `10.0.0.${host}/${length}`)
        const current = (texts: readonly string[]) =>
          Array.from({ length: 256 }, (_, host) =>
            texts.some((text) => covers(text, `10.0.0.${host}`)),
          )
        const merged = mergeAddresses(members) ?? []
        expect(current(merged)).toEqual(current(members))
        expect(mergeAddresses([...merged].reverse())).toEqual(merged)
      }),
    )
  })
})

describe('differences of versions and configurations', () => {
  const web = objectsAt('objects', 'web-clusterip.json')
  const chain = 'service-PFISGYVC-default/web/tcp/'
  const toPort =
    'ip daddr 10.96.119.228 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'
  const anyPort = 'ip daddr 10.96.119.228 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'

  test.each([
    ['v1.33.5', 'filter-prerouting', toPort],
    ['v1.33.6', 'filter-prerouting-pre-dnat', toPort],
    ['v1.33', 'filter-prerouting-pre-dnat', toPort],
    ['v1.34.0', 'filter-prerouting-pre-dnat', anyPort],
    ['v1.35.8', 'filter-prerouting-pre-dnat', anyPort],
  ])('%s has %s and masquerades a ClusterIP by %s', (version, filter, masquerade) => {
    const table = ipTable(web, version)
    expect([...table.chains.keys()]).toContain(filter)
    expect(texts(table, chain)?.[0]).toBe(masquerade)
  })

  test('masqueradeAll masquerades every source', () => {
    const config = { ...recordedConfig(), nftables: { masqueradeAll: true, masqueradeBit: 14 } }
    const first = (version: string) => texts(ipTable(web, version, config), chain)?.[0]
    expect(first('v1.33.6')).toBe('ip daddr 10.96.119.228 tcp dport 80 jump mark-for-masquerade')
    expect(first('v1.34.0')).toBe('ip daddr 10.96.119.228 jump mark-for-masquerade')
    const [rule] = ipTable(web, 'v1.36', config).chains.get('services')?.rules ?? []
    expect(rule).toEqual({
      text: 'ip daddr @cluster-ips meta mark set meta mark | 0x00004000',
      comment: 'masquerade all clusterIP traffic',
    })
  })

  test.each([
    ['v1.33.5', 'iif'],
    ['v1.33.6', 'iifname'],
    ['v1.34.1', 'iif'],
    ['v1.34.2', 'iifname'],
    ['v1.35.0', 'iifname'],
  ])('%s matches the interface of Pods by %s', (version, match) => {
    const config = {
      ...recordedConfig(),
      detectLocalMode: 'BridgeInterface' as const,
      bridgeInterface: 'cni0',
    }
    expect(texts(ipTable(web, version, config), chain)?.[0]).toMatch(
      new RegExp(` ${match} != "cni0" jump`),
    )
  })

  test('packets to unallocated addresses of the ServiceCIDRs are dropped from 1.33 on', () => {
    const comment = 'Drop traffic to unallocated ClusterIPs'
    const last = (objects: ClusterObjects, version: string) =>
      ipTable(objects, version).chains.get('cluster-ips-check')?.rules.at(-1)
    expect(last(web, '1.32')?.comment).toBe('Reject traffic to invalid ports of ClusterIPs')
    expect(last(web, '1.33')).toEqual({ text: 'ip daddr 10.96.0.0/16 drop', comment })
    const items = [['10.96.0.0/12', 'fd00:10:96::/112'], ['10.240.0.0/20']].map((cidrs, index) => ({
      kind: 'ServiceCIDR',
      metadata: { name: `range-${index}` },
      spec: { cidrs },
    }))
    const { serviceCIDRs } = readObjects({ kind: 'List', items }).objects
    expect(last({ ...web, serviceCIDRs }, '1.34')?.text).toBe(
      'ip daddr { 10.96.0.0/12, 10.240.0.0/20 } drop',
    )
  })

  test('1.37 is reported as newer than the modelled versions', () =>
    expect(() => tables(web, 'v1.37.0')).toThrow(
      '"v1.37.0" is newer than the modelled versions; the newest is 1.36',
    ))
})

describe('compareNftables', () => {
  const objects = objectsAt('objects', 'web-lb-source-ranges.json')
  const spoil = (change: (table: NftTable) => void, version = '1.34') => {
    const expected = tables(objects, version)
    const actual = structuredClone(expected)
    change(actual[0] as NftTable)
    return differences(expected, actual)
  }
  const serviceChain = (table: NftTable) =>
    table.chains.get('service-PFISGYVC-default/web/tcp/') ?? { rules: [{ text: 'none' }] }

  test('finds missing and stale elements and chains', () => {
    expect(
      spoil(({ maps }) => maps.get('service-ips')?.elements.delete('10.96.119.228 . tcp . 80')),
    ).toEqual(['missing: map service-ips: missing element 10.96.119.228 . tcp . 80'])
    expect(spoil(({ sets }) => sets.get('cluster-ips')?.elements.add('10.96.9.9'))).toEqual([
      'stale: set cluster-ips: stale element 10.96.9.9',
    ])
    expect(spoil(({ chains }) => chains.get('nat-prerouting')?.rules.pop())).toEqual([
      'missing: chain nat-prerouting: missing rule "jump services"',
    ])
    expect(spoil(({ chains }) => chains.delete('filter-input'))).toHaveLength(1)
    expect(spoil(({ chains }) => chains.set('mine', { rules: [{ text: 'drop' }] }))).toHaveLength(1)
  })

  test('finds an endpoint that is missing behind an element, in any chain', () => {
    const shortened = ({ text }: { text: string }) => ({
      text: text.replace(/ \{ 0 : [^,]+, 1 :/, ' { 0 :'),
    })
    for (const version of LAYOUTS) {
      const output = spoil(
        (table) =>
          serviceChain(table).rules.splice(0, 9, ...serviceChain(table).rules.map(shortened)),
        version,
      )
      expect(output.join(), version).toMatch(
        /wrong: map service-(ips|nodeports): .* leads to dnat to \S+, not to|masqueraded, not/,
      )
    }
  })

  test('finds a flushed chain, a missing mark and wider source ranges', () => {
    expect(spoil((table) => serviceChain(table).rules.splice(0)).join()).toMatch(
      /leads to nothing, not to/,
    )
    expect(spoil((table) => serviceChain(table).rules.shift()).join()).toMatch(
      /wrong: map service-ips: 10\.96\.119\.228/,
    )
    const firewall = (table: NftTable) =>
      table.chains.get('firewall-PFISGYVC-default/web/tcp/')?.rules
    expect(
      spoil((table) =>
        firewall(table)?.splice(0, 1, { text: 'ip saddr != 203.0.113.0/24 drop' }),
      ).join(),
    ).toMatch(/firewall-ips/)
  })

  test('ignores empty chains of deleted Services, elements of affinity sets and the rule for unallocated addresses', () => {
    expect(
      spoil(({ chains }) => chains.set('service-XXXXXXXX-default/old/tcp/', { rules: [] })),
    ).toEqual([])
    expect(
      spoil(({ chains }) =>
        chains.set('service-XXXXXXXX-default/old/tcp/', { rules: [{ text: 'drop' }] }),
      ),
    ).toHaveLength(1)
    const comment = 'Drop traffic to unallocated ClusterIPs'
    const check = ({ chains }: NftTable) => chains.get('cluster-ips-check')?.rules
    // The size of the range is a guess without ServiceCIDR objects; before 1.33 the rule may be
    // there or not.
    expect(
      spoil((table) => check(table)?.splice(1, 1, { text: 'ip daddr 10.96.0.0/12 drop', comment })),
    ).toEqual([])
    expect(
      spoil((table) => check(table)?.push({ text: 'ip daddr 10.96.0.0/16 drop', comment }), '1.32'),
    ).toEqual([])
    // A kube-proxy that learns of the ServiceCIDR after its first sync is without the rule for up
    // to an hour.
    expect(spoil((table) => check(table)?.pop())).toEqual([])
    expect(spoil((table) => check(table)?.shift())).toEqual([
      expect.stringMatching(/^missing: chain cluster-ips-check/),
    ])
    expect(
      spoil(({ sets }) =>
        sets.set('affinity-XXXXXXXX-a/b/tcp/', { type: 'x', flags: [], elements: new Set() }),
      ),
    ).toEqual([])
  })

  test('tells another policy of a base chain from a missing chain', () => {
    const base = ({ chains }: NftTable) => chains.get('filter-forward')?.base
    expect(spoil((table) => Object.assign(base(table) ?? {}, { policy: 'drop' }))).toEqual([
      'wrong: chain filter-forward at hook forward, priority 0 has policy drop, not policy accept',
    ])
    expect(spoil((table) => Object.assign(base(table) ?? {}, { policy: 'accept' }))).toEqual([])
  })

  test('names the table of a finding about IPv6', () => {
    const expected = tables(objects, '1.34')
    const actual = structuredClone(expected)
    actual[1]?.chains.get('nat-prerouting')?.rules.pop()
    expect(differences(expected, actual)).toEqual([
      'missing: table ip6 kube-proxy: chain nat-prerouting: missing rule "jump services"',
    ])
  })

  test('finds a missing table, and a table left over from another mode', () => {
    const both = tables(objects, '1.34')
    expect(differences(both, both.slice(0, 1))).toEqual([
      'missing: table ip6 kube-proxy is missing',
    ])
    const stale = compareNftables([], both, { mode: 'iptables' }).map(({ kind }) => kind)
    expect(stale).toEqual(['stale', 'stale'])
    expect(
      compareNftables([], [{ ...(both[0] as NftTable), name: 'mine' }], { mode: 'iptables' }),
    ).toEqual([])
  })

  test('ends for a chain that jumps to itself', () => {
    const printed = spoil((table) =>
      serviceChain(table).rules.splice(0, 9, { text: 'goto service-PFISGYVC-default/web/tcp/' }),
    )
    expect(printed.join()).toMatch(/leads to "goto/)
  })
})

test('random Services: a prediction equals itself, every jump has its chain, and all layouts have the same endpoints', () => {
  fc.assert(
    fc.property(randomObjects, fc.boolean(), (objects, all) => {
      const config = { ...recordedConfig(), nodePortAddresses: all ? ['0.0.0.0/0'] : [] }
      const layouts = LAYOUTS.map((version) => ipTable(objects, version, config))
      for (const table of layouts) {
        expect(differences([table], [structuredClone(table)])).toEqual([])
        const rules = [...table.chains.values()].flatMap((chain) =>
          chain.rules.map(({ text }) => text),
        )
        const verdicts = [...table.maps.values()].flatMap(({ elements }) => [...elements.values()])
        const lost = [...rules, ...verdicts].filter((text) => {
          const chains = [...text.matchAll(/\b(?:goto|jump) ([^\s,]+)/g)].map(
            ([, chain = '']) => chain,
          )
          const sets = [...text.matchAll(/@([^\s]+)/g)].map(([, set = '']) => set)
          const isThere = (set: string) => table.sets.has(set) || table.maps.has(set)
          return !chains.every((chain) => table.chains.has(chain)) || !sets.every(isThere)
        })
        expect(lost).toEqual([])
      }
      const ends = layouts.map((table) =>
        [...table.maps].flatMap(([map, { elements }]) =>
          [...elements].map(([key, verdict]) => {
            const branches = branchesOf(table, verdict).map(({ end, when, endpoints }) => [
              end,
              when,
              [...endpoints.keys()],
            ])
            return JSON.stringify([map, key, branches]).replace(/affinity-[^"]+/g, 'affinity')
          }),
        ),
      )
      for (const end of ends) expect(end).toEqual(ends[0])
    }),
    { numRuns: 60 },
  )
})

test('a version without the mode is refused with a sentence', () => {
  const before = SUPPORTED_VERSIONS.filter((version) => Number(version.split('.')[1]) < 30)
  expect(before.length).toBeGreaterThan(5)
  for (const version of before)
    expect(() => tables(objectsAt('objects', 'empty.json'), version)).toThrow(PredictError)
  expect(defaultConfig().nftables).toEqual({ masqueradeAll: false, masqueradeBit: 14 })
})
