import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseIptablesSave } from '../../../dataplane/iptables-save.ts'
import { featuresOf } from '../../../dataplane/kube-proxy/versions.ts'
import { ownedRules, writtenRules } from '../../kube-proxy/iptables-proxier.ts'
import { printMetricValue, SyncMetrics } from '../../kube-proxy/sync-metrics.ts'

const rules = { owned: { filter: 11, nat: 64 }, written: { filter: 11, nat: 8 } }

function printed(version: string): string {
  const metrics = new SyncMetrics('iptables', featuresOf(version))
  metrics.observe(0.2, { full: true, ...rules }, 1_764_226_402_100)
  metrics.observe(0.005, { full: false, ...rules }, 1_764_226_403_500)
  return metrics.print()
}

const values = (text: string) => text.split('\n').filter((line) => line && !line.startsWith('#'))

test('a duration is counted in every bucket that it fits into, of 1 ms to 16.384 s', () => {
  const lines = values(printed('v1.30.3')).filter((line) =>
    line.startsWith('kubeproxy_sync_proxy_rules_duration'),
  )
  const count = (le: string) =>
    lines
      .find((line) => line.includes(`{le="${le}"}`))
      ?.split(' ')
      .at(-1)
  expect(lines).toHaveLength(18)
  expect(['0.004', '0.008', '0.128', '0.256', '16.384', '+Inf'].map(count)).toEqual([
    '0',
    '1',
    '1',
    '2',
    '2',
    '2',
  ])
  expect(lines.slice(-2)).toEqual([
    'kubeproxy_sync_proxy_rules_duration_seconds_sum 0.20500000000000002',
    'kubeproxy_sync_proxy_rules_duration_seconds_count 2',
  ])
})

test('each version has the metrics and labels of its time', () => {
  const total = 'kubeproxy_sync_proxy_rules_iptables_total'
  const last = 'kubeproxy_sync_proxy_rules_iptables_last'
  const about = (version: string) =>
    values(printed(version)).filter((line) => line.includes('_rules_iptables_'))
  expect(about('v1.20.2')).toEqual([])
  expect(about('v1.26.0')).toEqual([`${total}{table="filter"} 11`, `${total}{table="nat"} 64`])
  expect(about('v1.27.1')).toEqual([`${total}{table="filter"} 11`, `${total}{table="nat"} 8`])
  expect(about('v1.34.2')).toEqual([
    `${last}{ip_family="IPv4",table="filter"} 11`,
    `${last}{ip_family="IPv4",table="nat"} 8`,
    `${total}{ip_family="IPv4",table="filter"} 11`,
    `${total}{ip_family="IPv4",table="nat"} 64`,
  ])
  const partial = 'kubeproxy_sync_partial_proxy_rules_duration_seconds_count'
  expect(printed('v1.27.1')).not.toContain(partial)
  expect(printed('v1.28.3')).toContain(`${partial} 1\n`)
  expect(printed('v1.34.2')).toContain(`${partial}{ip_family="IPv4"} 1\n`)
  expect(printed('v1.34.2')).toContain(
    'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.7642264035e+09\n',
  )
})

test('IPVS mode counts no rules and does not tell full syncs from partial ones', () => {
  const metrics = new SyncMetrics('ipvs', featuresOf('v1.34.2'))
  metrics.observe(0.2, { full: true }, 1_764_226_402_100)
  expect(metrics.print()).not.toMatch(/iptables|partial/)
  expect(metrics.print()).toContain('proxy_rules_duration_seconds_count{ip_family="IPv4"} 1\n')
})

test('a sync that failed has a duration, and leaves the time and the rules of the last one that succeeded', () => {
  const metrics = new SyncMetrics('iptables', featuresOf('v1.30.3'))
  metrics.observe(0.1, { full: true, ...rules }, 1_000_000)
  metrics.observe(0.1, { full: false, owned: { nat: 99 }, written: { nat: 99 } })
  expect(metrics.print()).toContain('duration_seconds_count 2\n')
  expect(metrics.print()).toContain('last_timestamp_seconds 1000\n')
  expect(metrics.print()).toContain('iptables_total{table="nat"} 64\n')
})

test('numbers are printed as by Go, and read back as they were', () => {
  expect([0, 0.001, 16.384, 999_999, 1_000_000, 0.0001, 0.00001].map(printMetricValue)).toEqual([
    '0',
    '0.001',
    '16.384',
    '999999',
    '1e+06',
    '0.0001',
    '1e-05',
  ])
  fc.assert(
    fc.property(fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }), (value) => {
      expect(Number(printMetricValue(value))).toBe(value)
    }),
  )
})

test("rules are counted in kube-proxy's own chains, without the jumps to them and other programs' rules", () => {
  const wanted = parseIptablesSave(`*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-A
-A KUBE-SERVICES -d 10.96.0.2/32 -j KUBE-SVC-B
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
COMMIT
`)
  expect(ownedRules(wanted)).toEqual({ filter: 0, nat: 2 })
  expect(
    writtenRules(
      '*filter\n-A KUBE-FORWARD -j ACCEPT\nCOMMIT\n*nat\n-I PREROUTING 1\n-A A -j B\n-X C\nCOMMIT\n',
    ),
  ).toEqual({ filter: 1, nat: 1 })
})
