import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CompleteChecks } from '../../grading/complete-checks.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { Snapshot } from '../../grading/snapshot.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'checks-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const open = (name = 'mine') => new CompleteChecks('embedded', name, root)
const passed: StepOutcome = { id: 'conntrack', verdict: 'passed' }
const failed: StepOutcome = { id: 'conntrack', verdict: 'failed', reason: 'no reply' }

/** Objects of a cluster, with notes of lab 2 about an attempt at the step, if there is one. */
function snapshot(uid = 'node-1', attempt?: string): Snapshot {
  const items: object[] = [{ kind: 'Node', metadata: { name: 'n', uid } }]
  if (attempt !== undefined)
    items.push({
      kind: 'ConfigMap',
      metadata: { name: 'lab-2', namespace: 'default' },
      data: { attempt: JSON.stringify({ id: attempt, steps: ['conntrack'] }) },
    })
  return new Snapshot({ objects: { apiVersion: 'v1', kind: 'List', items }, nodes: [] })
}

test('what one program found, every other one of the same cluster reads, the latest of each step', () => {
  open().keep(2, snapshot(), [failed, { id: 'sets', verdict: 'passed' }], 1000)
  open().keep(2, snapshot(), [passed], 2000)
  expect([...open().of(2, snapshot())]).toEqual([
    ['conntrack', { at: 2000, outcome: passed }],
    ['sets', { at: 1000, outcome: { id: 'sets', verdict: 'passed' } }],
  ])
  expect(open().of(3, snapshot()).size).toBe(0)
  expect(open('other').of(2, snapshot()).size).toBe(0)
})

test('only verdicts about the state are kept', () => {
  const verdicts = ['not yet', 'not applicable', 'could not check'] as const
  open().keep(
    2,
    snapshot(),
    verdicts.map((verdict) => ({ id: verdict, verdict })),
  )
  expect(open().of(2, snapshot()).size).toBe(0)
})

test('a new cluster of the same name, another attempt and a reset have none', () => {
  open().keep(2, snapshot('node-1', 'first'), [passed])
  expect(open().of(2, snapshot('node-1', 'first')).size).toBe(1)
  expect(open().of(2, snapshot('node-1', 'second')).size).toBe(0)
  expect(open().of(2, snapshot('node-2', 'first')).size).toBe(0)
  open().forget(2)
  expect(open().of(2, snapshot('node-1', 'first')).size).toBe(0)
})

test('a damaged file and a folder that can not be written are as if nothing was checked', () => {
  open().keep(2, snapshot(), [passed])
  writeFileSync(join(open().folder, 'lab-2.json'), '{"identity":')
  expect(open().of(2, snapshot()).size).toBe(0)
  open().keep(2, snapshot(), [passed])
  expect(open().of(2, snapshot()).size).toBe(1)
  writeFileSync(join(root, 'file'), '')
  const unwritable = new CompleteChecks('embedded', 'mine', join(root, 'file'))
  unwritable.keep(2, snapshot(), [passed])
  expect(unwritable.of(2, snapshot()).size).toBe(0)
})
