import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  featuresOf,
  SUPPORTED_VERSIONS,
  VersionError,
} from '../../../dataplane/kube-proxy/versions.ts'
import { PredictError } from '../../../dataplane/predict.ts'
import { projectRoot } from '../../../host/layout.ts'
import { oneService, predictOn, rulesOf, WEB } from './cluster-of.ts'

const local = { ip: '10.244.1.5', node: 'w' }
const remote = { ip: '10.244.2.5' }
const nodePort = { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }
const chainsOf = (version: string, spec: object, backends = [remote]) =>
  [...(predictOn(oneService(spec, backends), version).iptables.get('nat')?.keys() ?? [])].filter(
    (chain) => chain.endsWith(WEB),
  )

describe('versions', () => {
  test('1.20 and 1.23 to 1.36 are modelled, in every spelling', () => {
    expect(SUPPORTED_VERSIONS).toEqual([
      '1.20',
      ...Array.from({ length: 14 }, (_, index) => `1.${index + 23}`),
    ])
    for (const text of ['v1.30.3', '1.30', 'v1.30', '1.30.0-rc.1', 'v1.30.3+k3s1'])
      expect(featuresOf(text).version).toBe('1.30')
  })

  test.each(['1.21', '1.19.3', '2.0', '1', '', 'latest', '1.30.x', '1.99', '__proto__'])(
    '"%s" is refused',
    (text) => expect(() => featuresOf(text)).toThrow(VersionError),
  )

  test('IPVS mode syncs once an hour in 1.34.0 to 1.34.3 and in 1.35.0, as the card of lab 2 says', () => {
    const hourly = (version: string) => featuresOf(version).ipvsHourlyResync
    expect(['1.34.0', '1.34.3', '1.35.0'].map(hourly)).toEqual([true, true, true])
    expect(['1.33', '1.34', '1.34.4', '1.35', '1.35.1', '1.36'].filter(hourly)).toEqual([])
    const card = readFileSync(join(projectRoot, 'labs/02-ipvs/CARD.md'), 'utf8')
    expect(card).toContain('every 30 seconds, in 1.34.0 to 1.34.3 and 1.35.0 every hour')
  })

  test('an unknown node and userspace mode after 1.20 are refused with a sentence', () => {
    const objects = oneService({}, [])
    expect(() => predictOn(objects, '1.30', { node: 'x' })).toThrow(
      /Node "x" is not among the objects; they have w\./,
    )
    expect(() => predictOn(objects, '1.30', { mode: 'userspace' })).toThrow(PredictError)
  })
})

describe('chains of externalTrafficPolicy Local', () => {
  const spec = { ...nodePort, externalTrafficPolicy: 'Local' }
  test.each([
    ['1.20', ['KUBE-SVC-', 'KUBE-XLB-']],
    ['1.23', ['KUBE-SVC-', 'KUBE-XLB-']],
    ['1.24', ['KUBE-EXT-', 'KUBE-SVC-', 'KUBE-SVL-']],
    ['1.25', ['KUBE-EXT-', 'KUBE-SVC-']],
    ['1.36', ['KUBE-EXT-', 'KUBE-SVC-']],
  ])('%s without local endpoints has %j', (version, prefixes) =>
    expect(chainsOf(version, spec).sort()).toEqual(prefixes.map((prefix) => `${prefix}${WEB}`)),
  )

  test('packets without a local endpoint are marked in nat up to 1.24 and dropped in filter from 1.25 on', () => {
    const objects = oneService(spec, [remote])
    expect(rulesOf(predictOn(objects, '1.23'), 'nat', `KUBE-XLB-${WEB}`)?.at(-1)).toBe(
      '-m comment --comment "default/web has no local endpoints" -j KUBE-MARK-DROP',
    )
    expect(rulesOf(predictOn(objects, '1.24'), 'nat', `KUBE-SVL-${WEB}`)).toEqual([
      '-m comment --comment "default/web has no local endpoints" -j KUBE-MARK-DROP',
    ])
    expect(rulesOf(predictOn(objects, '1.25'), 'filter', 'KUBE-EXTERNAL-SERVICES')).toEqual([
      '-p tcp -m comment --comment "default/web has no local endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP',
    ])
  })
})

describe('the place of the masquerade rules', () => {
  const cluster =
    '! -s 10.244.0.0/16 -d 10.96.0.7/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ'
  const port = '-p tcp -m comment --comment "default/web" -m tcp --dport 30080 -j KUBE-MARK-MASQ'
  const objects = oneService(nodePort, [remote])
  test('1.20: before the jumps to the Service', () => {
    expect(rulesOf(predictOn(objects, '1.20'), 'nat', 'KUBE-SERVICES')?.[0]).toBe(cluster)
    expect(rulesOf(predictOn(objects, '1.20'), 'nat', 'KUBE-NODEPORTS')?.[0]).toBe(port)
  })
  test('1.23: in the chain of the Service', () =>
    expect(rulesOf(predictOn(objects, '1.23'), 'nat', `KUBE-SVC-${WEB}`)?.slice(0, 2)).toEqual([
      cluster,
      port,
    ]))
  test('1.24: for node ports in KUBE-EXT-', () => {
    expect(rulesOf(predictOn(objects, '1.24'), 'nat', `KUBE-SVC-${WEB}`)?.[0]).toBe(cluster)
    expect(rulesOf(predictOn(objects, '1.24'), 'nat', `KUBE-EXT-${WEB}`)).toEqual([
      '-m comment --comment "masquerade traffic for default/web external destinations" -j KUBE-MARK-MASQ',
      `-j KUBE-SVC-${WEB}`,
    ])
  })
})

describe('rules that a version introduced', () => {
  const balancer = {
    type: 'LoadBalancer',
    loadBalancerSourceRanges: ['203.0.113.0/24', '172.18.0.0/16'],
  }
  const objects = oneService(balancer, [local, remote], {
    loadBalancer: { ingress: [{ ip: '172.18.255.1' }] },
  })
  const has = (version: string, mode: 'iptables' | 'ipvs', text: string, nfacct = true) =>
    [...predictOn(objects, version, { mode, with: { nfacct } }).iptables.values()].some((table) =>
      [...table.values()].some((chain) =>
        chain.rules.some(({ spec }) => `-A ${chain.name} ${spec}`.includes(text)),
      ),
    )
  test.each([
    ['iptables', '-j KUBE-FIREWALL', '1.26', '1.27'],
    ['iptables', 'will be dropped by KUBE-PROXY-FIREWALL', '1.26', '1.27'],
    [
      'iptables',
      '-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall"',
      '1.24',
      '1.25',
    ],
    [
      'iptables',
      '-A INPUT -m comment --comment "kubernetes health check service ports"',
      '1.20',
      '1.23',
    ],
    ['iptables', '"kubernetes forwarding conntrack rule"', '1.20', '1.23'],
    ['iptables', '--nfacct-name  ct_state_invalid_dropped_pkts -j DROP', '1.30', '1.31'],
    ['ipvs', '-A INPUT -m comment --comment "kubernetes health check rules"', '1.20', '1.23'],
    ['ipvs', 'KUBE-SOURCE-RANGES-FIREWALL', '1.24', '1.25'],
    ['ipvs', 'KUBE-IPVS-FILTER', '1.25', '1.26'],
    ['ipvs', '-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN', '1.25', '1.26'],
    ['ipvs', '-A KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT', '1.27', '1.28'],
    ['ipvs', 'KUBE-IPVS-OUT-FILTER', '1.28', '1.29'],
    ['ipvs', '-A KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL', '1.29', '1.30'],
  ] as const)('%s: %s is not in %s, but in %s', (mode, text, before, from) => {
    expect(has(before, mode, text)).toBe(false)
    expect(has(from, mode, text)).toBe(true)
  })
  test('the rule for INVALID packets is omitted if conntrack is liberal, from 1.29 on', () => {
    const first = (version: string) =>
      rulesOf(
        predictOn(objects, version, { with: { conntrackTCPLiberal: true } }),
        'filter',
        'KUBE-FORWARD',
      )?.[0]
    expect(first('1.28')).toBe('-m conntrack --ctstate INVALID -j DROP')
    expect(first('1.29')).toContain('kubernetes forwarding rules')
  })
  test('an address with ipMode Proxy is not programmed from 1.30 on', () => {
    const proxied = oneService(balancer, [local], {
      loadBalancer: { ingress: [{ ip: '172.18.255.1', ipMode: 'Proxy' }] },
    })
    const rules = (version: string) =>
      rulesOf(predictOn(proxied, version), 'nat', 'KUBE-SERVICES')?.join('\n')
    expect(rules('1.28')).toContain('172.18.255.1')
    expect(rules('1.30')).not.toContain('172.18.255.1')
  })
})

describe('the choice of endpoints', () => {
  const leaving = {
    ip: '10.244.1.6',
    node: 'w',
    conditions: { ready: false, serving: true, terminating: true },
  }
  const endpoints = (
    version: string,
    spec: object,
    backends: Parameters<typeof oneService>[1],
    metadata = {},
  ) =>
    [
      ...(predictOn(oneService(spec, backends, {}, metadata), version)
        .iptables.get('nat')
        ?.values() ?? []),
    ]
      .filter((chain) => chain.name.startsWith('KUBE-SEP-'))
      .map((chain) => /--to-destination (\S+):/.exec(chain.rules[1]?.spec ?? '')?.[1])
      .sort()
  test('terminating endpoints are used from 1.26 on if no other endpoint is ready', () => {
    expect(endpoints('1.25', {}, [leaving])).toEqual([])
    expect(endpoints('1.26', {}, [leaving])).toEqual(['10.244.1.6'])
    expect(endpoints('1.26', {}, [leaving, remote])).toEqual(['10.244.2.5'])
  })
  test('a Local policy uses a terminating local endpoint although remote ones are ready', () =>
    expect(
      endpoints('1.30', { ...nodePort, externalTrafficPolicy: 'Local' }, [leaving, remote]),
    ).toEqual(['10.244.1.6', '10.244.2.5']))
  test('internalTrafficPolicy Local is ignored in 1.20, filters endpoints in 1.23 and has its own chain from 1.24 on', () => {
    const spec = { internalTrafficPolicy: 'Local' }
    expect(endpoints('1.20', spec, [local, remote])).toHaveLength(2)
    expect(endpoints('1.23', spec, [local, remote])).toEqual(['10.244.1.5'])
    expect(chainsOf('1.23', spec, [local])).toEqual([`KUBE-SVC-${WEB}`])
    expect(chainsOf('1.24', spec, [local])).toEqual([`KUBE-SVL-${WEB}`])
  })
  test('zone hints need the annotation up to 1.30, and hints on all endpoints in every version', () => {
    const zoned = [
      { ...local, hints: { forZones: [{ name: 'a' }] } },
      { ...remote, hints: { forZones: [{ name: 'b' }] } },
    ]
    const auto = { annotations: { 'service.kubernetes.io/topology-mode': 'Auto' } }
    expect(endpoints('1.30', {}, zoned)).toHaveLength(2)
    expect(endpoints('1.30', {}, zoned, auto)).toEqual(['10.244.1.5'])
    expect(endpoints('1.31', {}, zoned)).toEqual(['10.244.1.5'])
    expect(endpoints('1.31', {}, [...zoned, { ip: '10.244.2.9' }])).toHaveLength(3)
  })
  test('the annotations for zone hints and their values', () => {
    const zoned = [
      { ...local, hints: { forZones: [{ name: 'a' }] } },
      { ...remote, hints: { forZones: [{ name: 'b' }] } },
    ]
    const used = (version: string, older: string | undefined, newer?: string) => {
      const annotations = {
        ...(older === undefined ? {} : { 'service.kubernetes.io/topology-aware-hints': older }),
        ...(newer === undefined ? {} : { 'service.kubernetes.io/topology-mode': newer }),
      }
      return endpoints(version, {}, zoned, { annotations }).length === 1
    }
    for (const word of ['Auto', 'auto'])
      expect([used('1.26', word), used('1.30', word)]).toEqual([true, true])
    for (const word of ['Disabled', 'disabled', ''])
      expect([used('1.26', word), used('1.30', word)]).toEqual([false, false])
    // Values of other heuristics are valid from 1.27 on, as is the newer annotation.
    expect([used('1.26', 'other'), used('1.27', 'other')]).toEqual([false, true])
    expect([used('1.26', undefined, 'Auto'), used('1.27', undefined, 'Auto')]).toEqual([
      false,
      true,
    ])
    expect([used('1.30', 'Disabled', 'Auto'), used('1.30', 'Auto', 'Disabled')]).toEqual([
      false,
      true,
    ])
  })
  test('hints for nodes have precedence over hints for zones from 1.34 on', () => {
    const hinted = [
      { ...local, hints: { forNodes: [{ name: 'elsewhere' }], forZones: [{ name: 'a' }] } },
      { ...remote, hints: { forNodes: [{ name: 'w' }], forZones: [{ name: 'b' }] } },
    ]
    expect(endpoints('1.33', {}, hinted)).toEqual(['10.244.1.5'])
    expect(endpoints('1.34', {}, hinted)).toEqual(['10.244.2.5'])
    expect(
      endpoints('1.34', {}, [
        ...hinted,
        { ip: '10.244.2.9', hints: { forZones: [{ name: 'a' }] } },
      ]),
    ).toEqual(['10.244.1.5', '10.244.2.9'])
  })
})
