import { describe, expect, test } from 'vitest'
import { parseConntrack } from '../../../dataplane/conntrack.ts'
import { parseIpvsadmSave } from '../../../dataplane/ipvsadm-save.ts'
import { isStale } from '../../kube-proxy/conntrack-cleanup.ts'
import { serverInputs } from '../../kube-proxy/ipvs-proxier.ts'
import { usableObjects } from '../../kube-proxy/kube-proxy.ts'
import { klogLine, parseDuration, readSettings, StartFailure } from '../../kube-proxy/settings.ts'

test('a UDP flow is stale if its reply comes from an address that is not an endpoint of its Service', () => {
  const flow = (destination: string, port: number, answer: string) =>
    parseConntrack(
      `udp      17 20 src=10.244.1.9 dst=${destination} sport=5000 dport=${port} src=${answer} dst=10.244.1.9 sport=53 dport=5000 mark=0 use=1`,
    )[0]
  const backends = new Map([
    ['10.96.0.10:53', new Set(['10.244.0.2'])],
    [':30053', new Set(['10.244.0.2'])],
  ])
  const stale = (...of: Parameters<typeof flow>) => {
    const connection = flow(...of)
    return connection && isStale(connection, backends, new Set(['172.18.0.3']))
  }
  expect(stale('10.96.0.10', 53, '10.244.0.2')).toBe(false)
  expect(stale('10.96.0.10', 53, '10.244.0.7')).toBe(true)
  expect(stale('10.96.0.10', 53, '10.96.0.10')).toBe(true)
  expect(stale('172.18.0.3', 30053, '10.244.0.7')).toBe(true)
  expect(stale('172.18.0.99', 30053, '10.244.0.7')).toBe(false)
  expect(stale('8.8.8.8', 53, '8.8.8.8')).toBe(false)
})

test('log lines have the format of klog', () => {
  const line = klogLine(
    'I',
    'server.go:527',
    'Version info',
    { version: 'v1.34.0', n: 3, list: ['a'] },
    new Date(0),
  )
  expect(line).toBe(
    'I0101 00:00:00.000000       1 server.go:527] "Version info" version="v1.34.0" n=3 list=["a"]',
  )
})

test("settings have kube-proxy's defaults, durations and error messages", () => {
  expect(readSettings('mode: ""\n')).toMatchObject({
    mode: 'iptables',
    syncPeriodMs: 30_000,
    minSyncPeriodMs: 1000,
  })
  expect(readSettings('mode: ipvs\nipvs: {scheduler: own-made, syncPeriod: 1m5s}\n')).toMatchObject(
    {
      syncPeriodMs: 65_000,
      minSyncPeriodMs: 0,
      config: { ipvs: { scheduler: 'own-made' } },
    },
  )
  expect(
    readSettings('conntrack: {tcpCloseWaitTimeout: 0s, tcpBeLiberal: true}\n').sysctls,
  ).toEqual([
    ['net/netfilter/nf_conntrack_tcp_timeout_established', 86_400],
    ['net/netfilter/nf_conntrack_tcp_be_liberal', 1],
  ])
  expect(parseDuration('1h2m3.5s')).toBe(3_723_500)
  expect(parseDuration('soon')).toBeUndefined()
  for (const [text, message] of [
    ['mode: [', /^failed complete/],
    [
      'mode: magic',
      /^failed validate: KubeProxyConfiguration.Mode: Invalid value: "magic": must be iptables,ipvs/,
    ],
    ['clusterCIDR: 10.0.0.0/99', /^failed validate: KubeProxyConfiguration.clusterCIDR/],
  ] as const) {
    expect(() => readSettings(text)).toThrow(StartFailure)
    expect(() => readSettings(text)).toThrow(message)
  }
})

test('an invalid object is left out with the reason, and the others are used', () => {
  const service = (name: string, clusterIP: string) => ({
    kind: 'Service',
    metadata: { name, namespace: 'default', uid: name },
    spec: { clusterIP, ports: [{ port: 80 }] },
  })
  const { objects, leftOut } = usableObjects([
    service('web', '10.96.0.7'),
    service('odd', '10.96.0.999'),
  ])
  expect(objects.services.map(({ name }) => name)).toEqual(['web'])
  expect(leftOut).toEqual([
    expect.stringContaining('Service default/odd was left out: spec.clusterIP'),
  ])
})

describe('a real server in a sync', () => {
  const withServers = (weights: string[]) =>
    parseIpvsadmSave(
      ['-A -t 10.96.0.10:53 -s rr', ...weights.map((real) => `-a -t 10.96.0.10:53 ${real}`)].join(
        '\n',
      ),
    )
  const stays = '-r 10.244.0.2:53 -m -w 1'
  const [used, drained] = ['-r 10.244.0.3:53 -m -w 1', '-r 10.244.0.3:53 -m -w 0']
  const keys = new Set(['TCP 10.96.0.10:53 10.244.0.3:53'])
  test.each([
    {
      what: 'with connections and without an endpoint is kept',
      to: [],
      from: [used],
      kept: keys,
      line: `-e ${drained}`,
    },
    {
      what: 'without both is deleted',
      to: [],
      from: [drained],
      draining: keys,
      line: '-d -r 10.244.0.3:53',
    },
    {
      what: 'whose endpoint returns',
      to: [used],
      from: [drained],
      draining: keys,
      line: `-e ${used}`,
    },
    {
      what: 'whose endpoint returns, on a node without it',
      to: [used],
      from: [],
      draining: keys,
      line: `-a ${used}`,
    },
    { what: 'that returned already is left', to: [used], from: [used], draining: keys, line: '' },
    { what: 'with a weight set by hand is left', to: [used], from: [drained], line: '' },
    {
      what: 'with a weight set by hand, in the first sync',
      to: [used],
      from: [drained],
      first: true,
      line: `-e ${used}`,
    },
  ])('$what', ({ to, from, line, first = false, ...sets }) => {
    const [wanted, current] = [withServers([stays, ...to]), withServers([stays, ...from])]
    const { add, remove } = serverInputs({ wanted, current, first, excludeCIDRs: [], ...sets })
    expect(add.trim()).toBe(line.replace(' ', ' -t 10.96.0.10:53 '))
    expect(remove).toBe('')
  })
})
