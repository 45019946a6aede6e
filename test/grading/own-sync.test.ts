// Lab 6: kube-proxy's own figures, as its nodes report them at /metrics.

import { describe, expect, test } from 'vitest'
import { rulesByOwnCount, timeOfSync } from '../../checks/06-scale/own-sync.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { NotApplicable, Trouble } from '../../grading/failure.ts'
import { contextOf } from '../../grading/judge.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { answeredKey } from '../../grading/learning-notes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { misconception } from '../../grading/question.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const question = { ask: 'How many rules?', choices: [], many: false }

/** The metrics of a kube-proxy of 1.34 with syncs of these seconds. */
const metrics = (sum: number, count: number) => `# TYPE kubeproxy_sync_proxy_rules histogram
kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 99
kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.001"} 0
kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family="IPv4"} ${sum}
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} ${count}
kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 700
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 7
kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="filter"} 11
kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 23
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"} 11
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 64
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv6",table="nat"} 5
`

function context(live?: LiveCluster, notes: Record<string, unknown> = {}): CheckContext {
  const data = Object.fromEntries(
    Object.entries(notes).map(([key, note]) => [key, JSON.stringify(note)]),
  )
  const map = { kind: 'ConfigMap', metadata: { name: 'lab-6', namespace: 'default' }, data }
  const snapshot = new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items: [map] },
    nodes: [{ name: 'worker', files: new Map() }],
  })
  return contextOf(snapshot, new LabNotes(6, snapshot), live)
}

const on = (text: string) => context(madeLiveCluster({ node: () => text }))

describe('the time of a sync', () => {
  test.each([
    [0.012, ['10ms']],
    [0.09, ['100ms']],
    [0.032, ['100ms', '10ms']],
    [0.0001, ['1ms']],
    [20, ['1s']],
  ])('%s s on average: %j', async (average, names) => {
    const { accepts, because } = await timeOfSync(on(metrics(average * 40, 40)))
    expect([...accepts].sort()).toEqual(names)
    expect(because).toContain('(40 syncs)')
  })

  test('a kube-proxy that reports nothing is a problem of the machine, and a capture has none', async () => {
    await expect(timeOfSync(on(''))).rejects.toThrow(Trouble)
    await expect(timeOfSync(context())).rejects.toThrow(NotApplicable)
  })
})

describe('the rules that kube-proxy owns', () => {
  test('are those of table nat and IPv4; each other number of the page is explained', async () => {
    const truth = await rulesByOwnCount(on(metrics(4, 40)))
    expect(truth.accepts).toEqual(['64'])
    expect(misconception(question, truth, '23')).toContain('iptables_last')
    expect(misconception(question, truth, '11')).toContain('filter')
    expect(misconception(question, truth, '40')).toContain('number of syncs')
    expect(misconception(question, truth, '5')).toBeUndefined()
  })

  test('are not counted by kube-proxy 1.20', async () => {
    expect(featuresOf('v1.20.2').metricsRules).toBe('none')
    const text = metrics(4, 40).replace(/^.*iptables.*\n/gm, '')
    await expect(rulesByOwnCount(on(text))).rejects.toThrow(NotApplicable)
  })

  test('are in a capture as the answer that was right on the cluster', async () => {
    const right = { [answeredKey('own-sync')]: { text: '64', at: '2026-11-27' } }
    expect((await rulesByOwnCount(context(undefined, right))).accepts).toEqual(['64'])
    expect((await rulesByOwnCount(context())).accepts).toEqual([])
  })
})
