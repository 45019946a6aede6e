// What kube-proxy measures of its syncs (pkg/proxy/metrics/metrics.go), in the text format of
// Prometheus.

import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { Features } from '../../dataplane/kube-proxy/versions.ts'

/** ExponentialBuckets(0.001, 2, 15): 1 ms to 16.384 s. */
const BUCKETS = Array.from({ length: 15 }, (_, power) => 2 ** power / 1000)

/** The number of rules by table. */
export type RuleCounts = Readonly<Partial<Record<'filter' | 'nat', number>>>

/** What a sync was, besides its time. */
export interface SyncKind {
  /** It read the node and corrected all differences. */
  full: boolean
  /** iptables mode: the rules that kube-proxy owns after it, and those that it wrote. */
  owned?: RuleCounts
  written?: RuleCounts
}

type MetricLabels = Readonly<Record<string, string>>

const printLabels = (labels: MetricLabels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const printHead = (name: string, help: string, type: string) =>
  `# HELP ${name} [ALPHA] ${help}\n# TYPE ${name} ${type}\n`

/**
 * A number as Prometheus prints it: Go's shortest form, with an exponent below 0.0001 and from a
 * million (1.764e+09).
 */
export function printMetricValue(value: number): string {
  const [digits = '', power = ''] = value.toExponential().split('e')
  const exponent = Number(power)
  if (exponent >= -4 && exponent < 6) return String(value)
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** Durations, counted in every bucket that they fit into. */
class Histogram {
  readonly #counts = BUCKETS.map(() => 0)
  #count = 0
  #sum = 0

  observe(seconds: number): void {
    for (const [index, most] of BUCKETS.entries())
      if (seconds <= most) this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#count++
    this.#sum += seconds
  }

  print(name: string, help: string, labels: MetricLabels): string {
    const bucket = (le: string, count: number) =>
      `${name}_bucket${printLabels({ ...labels, le })} ${count}\n`
    return [
      printHead(name, help, 'histogram'),
      ...BUCKETS.map((most, index) => bucket(printMetricValue(most), this.#counts[index] ?? 0)),
      bucket('+Inf', this.#count),
      `${name}_sum${printLabels(labels)} ${printMetricValue(this.#sum)}\n`,
      `${name}_count${printLabels(labels)} ${this.#count}\n`,
    ].join('')
  }
}

function printGauge(name: string, help: string, values: readonly [MetricLabels, number][]): string {
  if (values.length === 0) return ''
  const lines = values.map(
    ([labels, value]) => `${name}${printLabels(labels)} ${printMetricValue(value)}\n`,
  )
  return printHead(name, help, 'gauge') + lines.join('')
}

/** The metrics of the syncs of one kube-proxy since its start. */
export class SyncMetrics {
  readonly #mode: KubeProxyMode
  readonly #features: Features
  readonly #all = new Histogram()
  readonly #full = new Histogram()
  readonly #partial = new Histogram()
  #last: SyncKind | undefined
  #succeededAt = 0

  constructor(mode: KubeProxyMode, features: Features) {
    this.#mode = mode
    this.#features = features
  }

  /**
   * Counts a sync; `succeededAt` (milliseconds since 1970) is missing if one of its commands
   * failed.
   */
  observe(seconds: number, kind: SyncKind, succeededAt?: number): void {
    this.#all.observe(seconds)
    const ofKind = kind.full ? this.#full : this.#partial
    ofKind.observe(seconds)
    if (succeededAt === undefined) return
    this.#last = kind
    this.#succeededAt = succeededAt
  }

  /** The lines about syncs of `curl localhost:10249/metrics`, by name. */
  print(): string {
    const family: MetricLabels = this.#features.metricsIPFamily ? { ip_family: 'IPv4' } : {}
    return [
      ...this.#printKinds(family),
      this.#all.print(
        'kubeproxy_sync_proxy_rules_duration_seconds',
        'SyncProxyRules latency in seconds',
        family,
      ),
      ...this.#printRules(family),
      printGauge(
        'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
        'The last time proxy rules were successfully synced',
        [[family, this.#succeededAt / 1000]],
      ),
    ].join('')
  }

  #printKinds(family: MetricLabels): string[] {
    if (this.#mode !== 'iptables' || !this.#features.metricsFullSyncs) return []
    const print = (kind: 'full' | 'partial', of: Histogram) =>
      of.print(
        `kubeproxy_sync_${kind}_proxy_rules_duration_seconds`,
        `SyncProxyRules latency in seconds for ${kind} resyncs`,
        family,
      )
    return [print('full', this.#full), print('partial', this.#partial)]
  }

  #printRules(family: MetricLabels): string[] {
    const { metricsRules } = this.#features
    if (metricsRules === 'none') return []
    const { owned = {}, written = {} } = this.#last ?? {}
    const values = (counts: RuleCounts) =>
      Object.entries(counts).map(([table, count]): [MetricLabels, number] => [
        { ...family, table },
        count,
      ])
    const total = (counts: RuleCounts, help: string) =>
      printGauge('kubeproxy_sync_proxy_rules_iptables_total', help, values(counts))
    if (metricsRules !== 'both')
      return [
        total(
          metricsRules === 'owned' ? owned : written,
          'Number of proxy iptables rules programmed',
        ),
      ]
    return [
      printGauge(
        'kubeproxy_sync_proxy_rules_iptables_last',
        'Number of iptables rules written by kube-proxy in last sync',
        values(written),
      ),
      total(owned, 'Total number of iptables rules owned by kube-proxy'),
    ]
  }
}
