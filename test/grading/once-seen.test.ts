import { expect, test } from 'vitest'
import { type LiveContext, onceSeen } from '../../grading/check-context.ts'
import { contextOf } from '../../grading/judge.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'

test('a step that passes because of what was seen before tells when that was', async () => {
  const snapshot = new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items: [] },
    nodes: [],
    takenAt: 0,
  })
  const notes = new LabNotes(7, snapshot)
  const shown: string[] = []
  const context = {
    ...contextOf(snapshot, notes, undefined),
    live: {},
    show: (lines: readonly string[]) => shown.push(...lines),
  } as unknown as LiveContext
  let proofs = 0
  const check = onceSeen<LiveContext>('in-nftables-mode', async () => ({ proofs: ++proofs }))
  await check(context)
  expect({ shown, proofs }).toEqual({ shown: [], proofs: 1 })
  await check(context)
  expect(proofs).toBe(1)
  expect(shown).toEqual([
    expect.stringMatching(
      /^It was seen at \d{4}-\d\d-\d\dT[\d:]{8}Z; what the nodes hold now is not judged here\.$/,
    ),
  ])
})
