import { describe, expect, test } from 'vitest'
import { compareNodeState } from '../../../dataplane/compare.ts'
import { oneService, predictOn, rulesOf, WEB } from './cluster-of.ts'

const local = { ip: '10.244.1.5', node: 'w' }
const remote = { ip: '10.244.2.5' }
const spec = {
  type: 'NodePort',
  externalTrafficPolicy: 'Local',
  ports: [{ port: 80, nodePort: 30080 }],
}
const objects = oneService(spec, [local, remote])

describe('fields of KubeProxyConfiguration', () => {
  test.each([
    [{ clusterCIDR: '' }, undefined, undefined],
    [{ clusterCIDR: 'fd00::/48,10.0.0.0/8' }, '! -s 10.0.0.0/8 -d', '-s 10.0.0.0/8 -m'],
    [{ detectLocalMode: 'NodeCIDR' as const }, '! -s 10.244.1.0/24 -d', '-s 10.244.1.0/24 -m'],
    [
      { detectLocalMode: 'BridgeInterface' as const, bridgeInterface: 'br0' },
      '-d 10.96.0.7/32 ! -i br0 -p',
      '-i br0 -m',
    ],
    [
      { detectLocalMode: 'InterfaceNamePrefix' as const, interfaceNamePrefix: 'veth' },
      '-d 10.96.0.7/32 ! -i veth+ -p',
      '-i veth+ -m',
    ],
  ])('%j', (config, masquerade, short) => {
    const state = predictOn(objects, '1.30', { with: config })
    const first = rulesOf(state, 'nat', `KUBE-SVC-${WEB}`)?.[0] ?? ''
    expect(first.endsWith('-j KUBE-MARK-MASQ')).toBe(masquerade !== undefined)
    expect(first.startsWith(masquerade ?? '')).toBe(true)
    const external = rulesOf(state, 'nat', `KUBE-EXT-${WEB}`) ?? []
    expect(external).toHaveLength(short === undefined ? 3 : 4)
    expect(external[0]?.startsWith(short ?? '')).toBe(true)
    const ipvs = rulesOf(
      predictOn(objects, '1.30', { mode: 'ipvs', with: config }),
      'nat',
      'KUBE-SERVICES',
    )
    expect(ipvs?.[1]).toContain(
      masquerade === undefined ? 'KUBE-CLUSTER-IP src,dst' : 'KUBE-CLUSTER-IP dst,dst',
    )
  })

  test('masqueradeAll masquerades packets from every source', () => {
    const state = predictOn(objects, '1.30', { with: { masqueradeAll: true } })
    expect(rulesOf(state, 'nat', `KUBE-SVC-${WEB}`)?.[0]).toMatch(
      /^-d 10\.96\.0\.7\/32 .* -j KUBE-MARK-MASQ$/,
    )
  })

  test('masqueradeBit sets the bit of the mark', () => {
    const state = predictOn(objects, '1.30', { with: { masqueradeBit: 31 } })
    expect(rulesOf(state, 'nat', 'KUBE-MARK-MASQ')).toEqual([
      '-j MARK --set-xmark 0x80000000/0x80000000',
    ])
  })

  test('nodePortAddresses limits node ports to its ranges in iptables and ipvs mode', () => {
    const config = { nodePortAddresses: ['172.16.0.0/12', 'fd00::/8'] }
    const tail = (family: 'ipv4' | 'ipv6') =>
      rulesOf(predictOn(objects, '1.30', { family, with: config }), 'nat', 'KUBE-SERVICES')?.at(-1)
    expect(tail('ipv4')).toMatch(/^-d 172\.18\.0\.3\/32 -m comment .* -j KUBE-NODEPORTS$/)
    expect(tail('ipv6')).toMatch(/^-d fd00:18::3\/128 /)
    const { virtualServers } = predictOn(objects, '1.30', { mode: 'ipvs', with: config })
    expect(virtualServers.map(({ address }) => address).sort()).toEqual(['10.96.0.7', '172.18.0.3'])
  })

  test('localhostNodePorts: false excludes loopback and leaves KUBE-FIREWALL empty', () => {
    const state = predictOn(objects, '1.30', { with: { localhostNodePorts: false } })
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.at(-1)).toMatch(/^! -d 127\.0\.0\.0\/8 /)
    expect(rulesOf(state, 'filter', 'KUBE-FIREWALL')).toEqual([])
  })

  test('ipvs.scheduler is used, with the flag mh-port from 1.27 on', () => {
    const config = { ipvs: { scheduler: 'mh', strictARP: false, excludeCIDRs: [] } }
    const server = (version: string) =>
      predictOn(objects, version, { mode: 'ipvs', with: config }).virtualServers[0]
    expect(server('1.26')).toMatchObject({ scheduler: 'mh', flags: [] })
    expect(server('1.27')).toMatchObject({ scheduler: 'mh', flags: ['mh-port'] })
  })

  test('an external IP that is an address of the node is not bound to kube-ipvs0 from 1.28 on', () => {
    const own = oneService({ externalIPs: ['172.18.0.3', '192.0.2.1'] }, [local])
    const bound = (version: string) =>
      predictOn(own, version, { mode: 'ipvs' })
        .links[0]?.addresses.map(({ address }) => address)
        .sort()
    expect(bound('1.27')).toEqual(['10.96.0.7', '172.18.0.3', '192.0.2.1'])
    expect(bound('1.28')).toEqual(['10.96.0.7', '192.0.2.1'])
  })

  test('a source range that contains the node admits the load balancer address; a range of length 0 is no member of a set', () => {
    const balancer = (ranges: string[]) =>
      oneService({ type: 'LoadBalancer', loadBalancerSourceRanges: ranges }, [local], {
        loadBalancer: { ingress: [{ ip: '172.18.255.1' }] },
      })
    const state = predictOn(balancer(['172.18.0.9/16']), '1.30')
    expect(rulesOf(state, 'nat', `KUBE-FW-${WEB}`)?.slice(0, 2)).toEqual([
      `-s 172.18.0.0/16 -m comment --comment "default/web loadbalancer IP" -j KUBE-EXT-${WEB}`,
      `-s 172.18.255.1/32 -m comment --comment "default/web loadbalancer IP" -j KUBE-EXT-${WEB}`,
    ])
    const ipvs = predictOn(balancer(['0.0.0.0/0', '10.1.2.3/32']), '1.30', { mode: 'ipvs' })
    expect([...(ipvs.ipsets.get('KUBE-LOAD-BALANCER-SOURCE-CIDR')?.members ?? [])]).toEqual([
      '172.18.255.1,tcp:80,10.1.2.3',
    ])
    expect([...(ipvs.ipsets.get('KUBE-LOAD-BALANCER-SOURCE-IP')?.members ?? [])]).toEqual([
      '172.18.255.1,tcp:80,172.18.255.1',
    ])
    expect(rulesOf(ipvs, 'filter', 'KUBE-IPVS-OUT-FILTER')).toEqual([])
  })

  test('balancing and endpoint rules have no comments above 1000 endpoints', () => {
    const many = (count: number) =>
      oneService(
        {},
        Array.from({ length: count }, (_, index) => ({
          ip: `10.244.${4 + (index >> 8)}.${index & 255}`,
        })),
      )
    const commented = (count: number) =>
      rulesOf(predictOn(many(count), '1.30'), 'nat', `KUBE-SVC-${WEB}`)?.[1]?.includes('--comment')
    expect(commented(1000)).toBe(true)
    expect(commented(1001)).toBe(false)
  })
})

describe('IPv6', () => {
  const v6 = oneService(
    { ...spec, externalTrafficPolicy: 'Cluster', sessionAffinity: 'ClientIP' },
    [{ ip: 'fd00:10:244:1::A', node: 'w' }],
  )
  const cidr = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
  test('rules have the syntax of ip6tables', () => {
    const state = predictOn(v6, '1.30', { family: 'ipv6', with: cidr })
    const text = JSON.stringify([...(state.iptables.get('nat')?.values() ?? [])])
    expect(text).toContain('--to-destination [fd00:10:244:1::a]:8080')
    expect(text).toContain('-s fd00:10:244:1::a/128 ')
    expect(text).toContain('--mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource')
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.[0]).toMatch(/^-d fd00:96::1\/128 /)
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.at(-1)).toMatch(/^! -d ::1\/128 /)
    const refused = predictOn(oneService({ clusterIP: 'fd00:96::1' }, []), '1.30', {
      family: 'ipv6',
    })
    expect(rulesOf(refused, 'filter', 'KUBE-SERVICES')?.[0]).toMatch(
      /-j REJECT --reject-with icmp6-port-unreachable$/,
    )
  })
  test('names of sets contain the family and are truncated, and the node serves both families', () => {
    const state = predictOn(v6, '1.30', { mode: 'ipvs', with: cidr })
    expect([...(state.ipsets.get('KUBE-6-CLUSTER-IP')?.members ?? [])]).toEqual([
      'fd00:96::1,tcp:80',
    ])
    expect(state.ipsets.get('KUBE-6-LOAD-BALANCER-SOURCE-CID')?.options.family).toBe('inet6')
    expect(state.links[0]?.addresses).toEqual([
      { family: 'inet6', address: 'fd00:96::1', prefixLength: 128 },
    ])
    expect(state.virtualServers.map(({ address }) => address)).toEqual(['fd00:96::1', 'fd00:18::3'])
    expect(predictOn(v6, '1.20', { mode: 'ipvs' }).ipsets.has('KUBE-6-CLUSTER-IP')).toBe(false)
  })
})

describe('userspace mode of 1.20', () => {
  test('every address leads to a listener of kube-proxy, with or without endpoints', () => {
    const state = predictOn(oneService({ ...spec, externalIPs: ['192.0.2.1'] }, []), '1.20', {
      mode: 'userspace',
      with: { portRange: '40000-41000' },
    })
    expect(rulesOf(state, 'nat', 'KUBE-PORTALS-CONTAINER')).toEqual([
      '-d 10.96.0.7/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -j REDIRECT --to-ports 40000',
      '-d 192.0.2.1/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -m physdev ! --physdev-is-in -j REDIRECT --to-ports 40000',
      '-d 192.0.2.1/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40000',
    ])
    expect(rulesOf(state, 'nat', 'KUBE-PORTALS-HOST')?.[0]).toMatch(
      /-j DNAT --to-destination 172\.18\.0\.3:40000$/,
    )
    expect(rulesOf(state, 'nat', 'KUBE-NODEPORT-CONTAINER')).toHaveLength(1)
    expect(rulesOf(state, 'nat', 'PREROUTING')?.at(-1)).toMatch(/must be the last rule/)
  })

  test('the assigned ports of listeners are equal to the predicted ones, unless the rules lead to different listeners', () => {
    const predicted = (portRange: string) =>
      predictOn(oneService(spec, [local]), '1.20', { mode: 'userspace', with: { portRange } })
    const expected = predicted('40000-41000')
    const compared = (edit: (spec: string, chain: string) => string) => {
      const actual = predicted('50000-51000')
      for (const table of actual.iptables.values())
        for (const { name, rules } of table.values())
          for (const rule of rules) rule.spec = edit(rule.spec, name)
      return compareNodeState(expected, actual, { mode: 'userspace' }).map(({ kind, where }) => ({
        kind,
        ...where,
      }))
    }
    expect(compared((rule) => rule)).toEqual([])
    for (const wrong of ['KUBE-PORTALS-HOST', 'KUBE-NODEPORT-CONTAINER', 'KUBE-NODEPORT-NON-LOCAL'])
      expect(
        compared((rule, chain) => (chain === wrong ? rule.replace('50000', '50001') : rule)),
      ).toMatchObject([{ kind: 'wrong', chain: wrong }])
    expect(compared((rule) => rule.replace('10.96.0.7', '10.96.0.8')).length).toBeGreaterThan(0)
  })

  const [web] = objects.services
  if (!web) throw new Error('there is no Service')
  const other = {
    ...web,
    name: 'other',
    clusterIPs: ['10.96.0.9'],
    ports: [{ ...web.ports[0], nodePort: 30081 }],
  }
  const inOrder = (services: object[]) =>
    predictOn({ ...objects, services } as typeof objects, '1.20', { mode: 'userspace' })

  test.each([
    ['to no listener', /^KUBE-PORTALS-CONTAINER$/, '9'],
    ['of the node itself to no listener', /^KUBE-PORTALS-HOST$/, '9'],
    ['to the listener of another Service', /^KUBE-PORTALS-/, 'other'],
    ['to the listener of another Service, except to its ClusterIP', /^KUBE-NODEPORT-/, 'other'],
  ])(
    'packets for one Service lead %s, although kube-proxy has assigned the predicted ports',
    (_what, chains, to) => {
      for (const services of [
        [web, other],
        [other, web],
      ]) {
        const [expected, actual] = [inOrder(services), inOrder(services)]
        expect(compareNodeState(expected, actual, { mode: 'userspace' })).toEqual([])
        const [own, another] = services[0] === web ? ['32768', '32769'] : ['32769', '32768']
        const ownPort = new RegExp(`(?<=[ :])${own}$`)
        const rules = [...actual.iptables.values()]
          .flatMap((table) => [...table.values()])
          .filter(({ name }) => chains.test(name))
          .flatMap((chain) => chain.rules)
        for (const rule of rules)
          rule.spec = rule.spec.replace(ownPort, to === 'other' ? another : to)
        expect(compareNodeState(expected, actual, { mode: 'userspace' }).length).toBeGreaterThan(0)
      }
    },
  )

  test('the Services may be in any order', () => {
    const [expected, actual] = [inOrder([web, other]), inOrder([web, other])]
    for (const table of actual.iptables.values())
      for (const { name, rules } of table.values()) if (name.startsWith('KUBE-')) rules.reverse()
    expect(rulesOf(actual, 'nat', 'KUBE-PORTALS-HOST')).not.toEqual(
      rulesOf(expected, 'nat', 'KUBE-PORTALS-HOST'),
    )
    expect(compareNodeState(expected, actual, { mode: 'userspace' })).toEqual([])
  })
})

describe('node ports and the ranges of nodePortAddresses', () => {
  const elsewhere = { nodePortAddresses: ['192.0.2.0/24'] }

  test('ranges without loopback disable node ports on loopback and the rule of KUBE-FIREWALL', () => {
    const firewall = (nodePortAddresses: string[]) =>
      rulesOf(
        predictOn(objects, '1.31', { with: { nodePortAddresses } }),
        'filter',
        'KUBE-FIREWALL',
      )?.length
    expect(
      [[], ['127.0.0.0/8'], ['127.0.0.1/32'], ['0.0.0.0/0'], ['fd00::/8']].map(firewall),
    ).toEqual([1, 1, 1, 1, 1])
    expect([['172.18.0.0/16'], ['primary']].map(firewall)).toEqual([0, 0])
  })

  test('if the node has no address in the ranges, 1.20 skips the rest of the Service, later versions only the node port', () => {
    const cluster = oneService({ type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }, [
      local,
    ])
    const chains = (version: string) => {
      const nat = predictOn(cluster, version, { with: elsewhere }).iptables.get('nat')
      return [...(nat?.values() ?? [])].filter(({ name }) => name.startsWith('KUBE-SEP-')).length
    }
    expect(['1.20', '1.23', '1.24', '1.30'].map(chains)).toEqual([0, 1, 1, 1])
    const { virtualServers } = predictOn(cluster, '1.30', { mode: 'ipvs', with: elsewhere })
    expect(virtualServers.map(({ address }) => address)).toEqual(['10.96.0.7'])
  })

  test('in ipvs mode addresses of kube-ipvs0 in the ranges serve node ports, too', () => {
    const balanced = oneService(
      { type: 'LoadBalancer', ports: [{ port: 80, nodePort: 30080 }] },
      [local],
      {
        loadBalancer: { ingress: [{ ip: '172.18.255.1' }] },
      },
    )
    const config = { nodePortAddresses: ['172.18.0.0/16'] }
    const ported = predictOn(balanced, '1.30', { mode: 'ipvs', with: config })
      .virtualServers.filter(({ port }) => port === 30080)
      .map(({ address }) => address)
    expect(ported.sort()).toEqual(['172.18.0.3', '172.18.255.1'])
  })

  test('1.20 serves node ports on the loopback addresses of both families', () => {
    const with6 = { dualStack: true, clusterCIDR: '10.244.0.0/16,fd00:244::/56' }
    const on = (backend: typeof local, version: string) =>
      predictOn(oneService(spec, [backend]), version, {
        mode: 'ipvs',
        with: with6,
      }).virtualServers.map(({ address }) => address)
    expect(on(local, '1.20')).toContain('127.0.0.1')
    expect(on({ ip: 'fd00:244::5', node: 'w' }, '1.20')).toContain('::1')
    expect(on({ ip: 'fd00:244::5', node: 'w' }, '1.23')).not.toContain('::1')
  })
})

describe('source ranges that contain the node IP as kube-proxy determines it', () => {
  const ranges = ['172.18.0.0/16', 'fd00:18::/64']
  const allows = (version: string, config: object, family: 'ipv4' | 'ipv6') => {
    const ip = family === 'ipv4' ? '172.18.255.1' : 'fd00:255::1'
    const balancer = {
      type: 'LoadBalancer',
      loadBalancerSourceRanges: ranges,
      ports: [{ port: 80, nodePort: 30080 }],
    }
    const backend = family === 'ipv4' ? local : { ip: 'fd00:244::5', node: 'w' }
    const cluster = oneService(balancer, [backend], { loadBalancer: { ingress: [{ ip }] } })
    const state = predictOn(cluster, version, { family, with: { ...config, clusterCIDR: '' } })
    return (
      rulesOf(state, 'nat', `KUBE-FW-${WEB}`)?.some((rule) => rule.startsWith(`-s ${ip}/`)) ?? false
    )
  }
  test.each([
    ['1.30', {}, true, true],
    ['1.28', {}, true, false],
    ['1.30', { bindAddress: '10.0.0.9' }, false, true],
    ['1.30', { bindAddress: '::' }, true, true],
    ['1.28', { bindAddress: 'fd00:18::9' }, false, true],
    ['1.20', {}, true, true],
    ['1.20', { bindAddress: '10.0.0.9' }, false, false],
    ['1.20', { dualStack: true }, false, false],
    ['1.20', { dualStack: true, bindAddress: '172.18.0.3' }, true, false],
  ])('%s with %j', (version, config, ipv4, ipv6) =>
    expect([allows(version, config, 'ipv4'), allows(version, config, 'ipv6')]).toEqual([
      ipv4,
      ipv6,
    ]),
  )
})
