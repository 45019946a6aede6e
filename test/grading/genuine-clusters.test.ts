// Whole genuine clusters of kind with Kubernetes 1.34.2 (data/recordings/kind-v1.34.2.json.br):
// healthy, so no step may find a fault.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { printExpected } from '../../course/expect.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { grade, loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import { modeOf, Snapshot } from '../../grading/snapshot.ts'
import { extractRecording } from '../dataplane/recorded-archive.ts'
import { breakFile } from './solved-capture.ts'

const root = mkdtempSync(join(tmpdir(), 'genuine-clusters-'))
afterAll(() => rmSync(root, { recursive: true }))
extractRecording('kind-v1.34.2', '', root)

const WORKER = 'k8s-guide-worker'
const STAGES = {
  baseline: 'iptables',
  'many-services': 'iptables',
  'iptables-other-configuration': 'iptables',
  'nftables-many-services': 'nftables',
  'nftables-other-configuration': 'nftables',
  'ipvs-crowd': 'ipvs',
} as const satisfies Record<string, KubeProxyMode>
type Stage = keyof typeof STAGES
const stages = Object.keys(STAGES) as Stage[]
const captureOf = (stage: Stage) => readCaptureFolder(join(root, stage))
const specs = await Promise.all(listLabs().map(({ number }) => loadSpec(readLab(number))))

const differencesOn = (capture: Capture, mode: KubeProxyMode) =>
  evaluate(new Snapshot(capture).node(WORKER), mode).differences.map(({ text }) => text)

describe.each(stages)('the genuine cluster %s', (stage) => {
  test('equals the prediction on every node', () => {
    const { nodes } = new Snapshot(captureOf(stage))
    expect(nodes.map((node) => [modeOf(node), evaluate(node, STAGES[stage]).differences])).toEqual(
      Array.from({ length: 3 }, () => [STAGES[stage], []]),
    )
  })

  test('fails no step of any lab because of a node', async () => {
    const snapshot = new Snapshot(captureOf(stage))
    for (const spec of specs)
      for (const { id, verdict, failure } of await judgeRound(spec, snapshot, undefined)) {
        const step = `lab ${spec.lab.number} ${id}`
        expect(failure?.differences ?? [], step).toEqual([])
        expect(verdict, step).not.toBe('could not check')
      }
  })
})

test('the grader agrees with scripts/expect.ts, which calls the same functions', async () => {
  const report = await grade({
    lab: 1,
    step: 'whole',
    source: { kind: 'capture', folder: join(root, 'baseline') },
  })
  expect(report.steps.map(({ id, verdict }) => [id, verdict])).toEqual([['whole', 'passed']])
  const written: string[] = []
  const spy = vi
    .spyOn(process.stdout, 'write')
    .mockImplementation((text) => written.push(`${text}`) > 0)
  try {
    expect(await printExpected({ diff: join(root, 'baseline'), node: WORKER })).toBe(0)
  } finally {
    spy.mockRestore()
  }
  expect(written.join('')).toBe('Equal: the node has exactly what kube-proxy programs.\n')
})

test.each<[Stage, string, string]>([
  ['many-services', '-A KUBE-FORWARD', 'KUBE-FORWARD'],
  ['ipvs-crowd', '-A KUBE-IPVS-FILTER', 'KUBE-IPVS-FILTER'],
])('%s: rules that ip6tables lost are found, and the family is named', (stage, rules, chain) => {
  const flushed = breakFile(captureOf(stage), WORKER, 'ip6tables-save', (text) =>
    text.replaceAll(new RegExp(`^(?:\\[\\d+:\\d+\\] )?${rules} .*\\n`, 'gm'), ''),
  )
  const found = differencesOn(flushed, STAGES[stage])
  expect(found.length).toBeGreaterThan(0)
  for (const text of found) expect(text).toContain(`ip6tables filter ${chain}: missing rule`)
})

test('a chain of another mode that is left in ip6tables only is found', () => {
  const left = breakFile(captureOf('baseline'), WORKER, 'ip6tables-save', (text) =>
    text.replace(':KUBE-FORWARD - [0:0]\n', '$&:KUBE-IPVS-FILTER - [0:0]\n'),
  )
  expect(differencesOn(left, 'iptables')).toEqual([
    expect.stringMatching(/^ip6tables filter chain KUBE-IPVS-FILTER is stale/),
  ])
})
