import { describe, expect, test } from 'vitest'
import { oneService, predictOn, rulesOf, WEB } from './cluster-of.ts'

const local = { ip: '10.244.1.5', node: 'w' }
const remote = { ip: '10.244.2.5' }
const spec = { type: 'NodePort', externalTrafficPolicy: 'Local', ports: [{ port: 80, nodePort: 30080 }] }
const objects = oneService(spec, [local, remote])

describe('how kube-proxy is configured shows in its rules', () => {
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
    if (masquerade) expect(first.startsWith(masquerade)).toBe(true)
    const external = rulesOf(state, 'nat', `KUBE-EXT-${WEB}`) ?? []
    expect(external).toHaveLength(short === undefined ? 3 : 4)
    if (short) expect(external[0]?.startsWith(short)).toBe(true)
    const ipvs = rulesOf(predictOn(objects, '1.30', { mode: 'ipvs', with: config }), 'nat', 'KUBE-SERVICES')
    expect(ipvs?.[1]).toContain(masquerade === undefined ? 'KUBE-CLUSTER-IP src,dst' : 'KUBE-CLUSTER-IP dst,dst')
  })

  test('masqueradeAll leaves the source out', () => {
    const state = predictOn(objects, '1.30', { with: { masqueradeAll: true } })
    expect(rulesOf(state, 'nat', `KUBE-SVC-${WEB}`)?.[0]).toMatch(/^-d 10\.96\.0\.7\/32 .* -j KUBE-MARK-MASQ$/)
  })

  test('masqueradeBit moves the mark', () => {
    const state = predictOn(objects, '1.30', { with: { masqueradeBit: 31 } })
    expect(rulesOf(state, 'nat', 'KUBE-MARK-MASQ')).toEqual(['-j MARK --set-xmark 0x80000000/0x80000000'])
  })

  test('nodePortAddresses: only there, in iptables and ipvs mode', () => {
    const config = { nodePortAddresses: ['172.16.0.0/12', 'fd00::/8'] }
    const tail = (family: 'ipv4' | 'ipv6') =>
      rulesOf(predictOn(objects, '1.30', { family, with: config }), 'nat', 'KUBE-SERVICES')?.at(-1)
    expect(tail('ipv4')).toMatch(/^-d 172\.18\.0\.3\/32 -m comment .* -j KUBE-NODEPORTS$/)
    expect(tail('ipv6')).toMatch(/^-d fd00:18::3\/128 /)
    const { virtualServers } = predictOn(objects, '1.30', { mode: 'ipvs', with: config })
    expect(virtualServers.map(({ address }) => address).sort()).toEqual(['10.96.0.7', '172.18.0.3'])
  })

  test('localhostNodePorts: false keeps loopback out and drops KUBE-FIREWALL of its rule', () => {
    const state = predictOn(objects, '1.30', { with: { localhostNodePorts: false } })
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.at(-1)).toMatch(/^! -d 127\.0\.0\.0\/8 /)
    expect(rulesOf(state, 'filter', 'KUBE-FIREWALL')).toEqual([])
  })

  test('the scheduler, and the flag of Maglev hashing from 1.27 on', () => {
    const config = { ipvs: { scheduler: 'mh', strictARP: false, excludeCIDRs: [] } }
    const server = (version: string) => predictOn(objects, version, { mode: 'ipvs', with: config }).virtualServers[0]
    expect(server('1.26')).toMatchObject({ scheduler: 'mh', flags: [] })
    expect(server('1.27')).toMatchObject({ scheduler: 'mh', flags: ['mh-port'] })
  })

  test('an external IP that the node has is not bound to kube-ipvs0, from 1.28 on', () => {
    const own = oneService({ externalIPs: ['172.18.0.3', '192.0.2.1'] }, [local])
    const bound = (version: string) =>
      predictOn(own, version, { mode: 'ipvs' })
        .links[0]?.addresses.map(({ address }) => address)
        .sort()
    expect(bound('1.27')).toEqual(['10.96.0.7', '172.18.0.3', '192.0.2.1'])
    expect(bound('1.28')).toEqual(['10.96.0.7', '192.0.2.1'])
  })

  test('a source range that holds the node lets the address itself pass; a zero range never reaches a set', () => {
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

  test('above 1000 endpoints balancing and endpoint rules lose their comments', () => {
    const many = (count: number) =>
      oneService(
        {},
        Array.from({ length: count }, (_, index) => ({ ip: `10.244.${4 + (index >> 8)}.${index & 255}` })),
      )
    const commented = (count: number) =>
      rulesOf(predictOn(many(count), '1.30'), 'nat', `KUBE-SVC-${WEB}`)?.[1]?.includes('--comment')
    expect(commented(1000)).toBe(true)
    expect(commented(1001)).toBe(false)
  })
})

describe('IPv6', () => {
  const v6 = oneService({ ...spec, externalTrafficPolicy: 'Cluster', sessionAffinity: 'ClientIP' }, [
    { ip: 'fd00:10:244:1::A', node: 'w' },
  ])
  const cidr = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
  test('rules are those of ip6tables', () => {
    const state = predictOn(v6, '1.30', { family: 'ipv6', with: cidr })
    const text = JSON.stringify([...(state.iptables.get('nat')?.values() ?? [])])
    expect(text).toContain('--to-destination [fd00:10:244:1::a]:8080')
    expect(text).toContain('-s fd00:10:244:1::a/128 ')
    expect(text).toContain('--mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource')
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.[0]).toMatch(/^-d fd00:96::1\/128 /)
    expect(rulesOf(state, 'nat', 'KUBE-SERVICES')?.at(-1)).toMatch(/^! -d ::1\/128 /)
    const refused = predictOn(oneService({ clusterIP: 'fd00:96::1' }, []), '1.30', { family: 'ipv6' })
    expect(rulesOf(refused, 'filter', 'KUBE-SERVICES')?.[0]).toMatch(/-j REJECT --reject-with icmp6-port-unreachable$/)
  })
  test('sets carry the family in their cut names, and the node serves both families', () => {
    const state = predictOn(v6, '1.30', { mode: 'ipvs', with: cidr })
    expect([...(state.ipsets.get('KUBE-6-CLUSTER-IP')?.members ?? [])]).toEqual(['fd00:96::1,tcp:80'])
    expect(state.ipsets.get('KUBE-6-LOAD-BALANCER-SOURCE-CID')?.options.family).toBe('inet6')
    expect(state.links[0]?.addresses).toEqual([{ family: 'inet6', address: 'fd00:96::1', prefixLength: 128 }])
    expect(state.virtualServers.map(({ address }) => address)).toEqual(['fd00:96::1', 'fd00:18::3'])
    expect(predictOn(v6, '1.20', { mode: 'ipvs' }).ipsets.has('KUBE-6-CLUSTER-IP')).toBe(false)
  })
})

describe('userspace mode of 1.20', () => {
  test('every address leads to a listener of kube-proxy, endpoints or not', () => {
    const state = predictOn(oneService({ ...spec, externalIPs: ['192.0.2.1'] }, []), '1.20', {
      mode: 'userspace',
      with: { portRange: '40000-41000' },
    })
    expect(rulesOf(state, 'nat', 'KUBE-PORTALS-CONTAINER')).toEqual([
      '-d 10.96.0.7/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -j REDIRECT --to-ports 40000',
      '-d 192.0.2.1/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -m physdev ! --physdev-is-in -j REDIRECT --to-ports 40000',
      '-d 192.0.2.1/32 -p tcp -m comment --comment "default/web" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40000',
    ])
    expect(rulesOf(state, 'nat', 'KUBE-PORTALS-HOST')?.[0]).toMatch(/-j DNAT --to-destination 172\.18\.0\.3:40000$/)
    expect(rulesOf(state, 'nat', 'KUBE-NODEPORT-CONTAINER')).toHaveLength(1)
    expect(rulesOf(state, 'nat', 'PREROUTING')?.at(-1)).toMatch(/must be the last rule/)
  })
})
