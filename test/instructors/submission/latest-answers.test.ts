// A step whose state was seen before it was answered: the capture of then, judged with the answers
// of the last one.

import { expect, test } from 'vitest'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { checkedStep } from '../../../grading/define-lab.ts'
import { expectThat } from '../../../grading/failure.ts'
import { Snapshot } from '../../../grading/snapshot.ts'
import { capturesToJudge } from '../../../instructors/submission/latest-answers.ts'
import type { Manifest } from '../../../instructors/submission/manifest.ts'
import { rejudge } from '../../../instructors/submission/rejudge.ts'
import { fakeLab, madeStep } from '../../grading/fake-lab.ts'

const question = { ask: 'How many rules are there?', choices: [], many: false }
const rulesIn = (snapshot: Snapshot) => snapshot.find('State', '', 'it')?.data?.rules ?? '0'

/** Its state, rules, is temporary, and so is the answer. */
const counted = checkedStep(
  99,
  { ...madeStep({ id: 'counted', moment: true, question }), understanding: undefined },
  {
    check: ({ snapshot }) =>
      expectThat(rulesIn(snapshot) !== '0', {
        inspect: 'iptables -S',
        expected: 'rules',
        actual: 'none',
      }),
    asked: { question: ({ snapshot }) => ({ accepts: [rulesIn(snapshot)], inspect: 'iptables' }) },
    needsCluster: false,
    onlyAsks: false,
  },
)
const spec = fakeLab({ counted, next: { needs: ['counted'] } })

const at = (time: string) => `2026-11-24T${time}.000Z`
const note = (text: string) => JSON.stringify({ text, at: at('14:05:00') })

function captured(rules: string, data?: Record<string, string>): Capture {
  const notes = { kind: 'ConfigMap', metadata: { name: 'lab-99', namespace: 'default' }, data }
  const items = [
    { kind: 'State', metadata: { name: 'it' }, data: { rules } },
    ...(data ? [notes] : []),
  ]
  return { objects: { apiVersion: 'v1', kind: 'List', items }, nodes: [] }
}

const manifest = (project: string): Manifest => ({
  schema: 'kube-service-labs/submission/v1',
  learner: 'alice',
  lab: 99,
  seed: '0'.repeat(16),
  submittedAt: at('14:10:00'),
  clock: { offsetMinutes: 0 },
  cluster: { driver: 'embedded', name: 'made', identity: '' },
  versions: { project, node: 'v20' },
  captures: [],
  steps: [
    { id: 'counted', verdict: 'passed', capture: 'answered', held: 'held' },
    { id: 'next', verdict: 'passed', capture: 'answered' },
  ],
  final: 'final',
  answers: [],
})

/** Seven rules when the state held; removed when the learner answered. */
async function verdictsWith(answer: string, project = '0.2.0'): Promise<Record<string, string>> {
  const submitted = (capture: Capture, time: string) => ({
    capture,
    takenAt: Date.parse(at(time)),
    digests: new Map(),
  })
  const captures = new Map([
    ['held', submitted(captured('7'), '14:00:00')],
    ['answered', submitted(captured('0', { 'answer.counted': note(answer) }), '14:05:00')],
    ['final', submitted(captured('0', { 'answer.counted': note(answer) }), '14:10:00')],
  ])
  const made = manifest(project)
  const judgedOn = capturesToJudge({ manifest: made, signature: 'none', captures })
  const snapshotOf = (id = '') => {
    const capture = judgedOn.get(id)
    return capture && new Snapshot(capture)
  }
  const outcomes = await rejudge(spec, made, snapshotOf, true)
  return Object.fromEntries(outcomes.map(({ id, verdict }) => [id, verdict]))
}

test('the right answer, given later, passes', async () => {
  expect(await verdictsWith('7')).toEqual({ counted: 'passed', next: 'passed' })
})

test('a wrong answer does not', async () => {
  expect((await verdictsWith('8')).counted).not.toBe('passed')
})

test('captures of a version without predictions keep their own notes', async () => {
  expect((await verdictsWith('7', '0.1.0')).counted).not.toBe('passed')
})

test('a step builds on the state of one that still waits for its answer', async () => {
  const made = manifest('0.2.0')
  const outcomes = await rejudge(spec, made, () => new Snapshot(captured('7')), true)
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['not yet', 'passed'])
})
