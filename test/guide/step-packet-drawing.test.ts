// When the packet of a step is drawn: its reads are answered by hand, so that the test chooses
// their order.

import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { Snapshot } from '../../grading/snapshot.ts'
import { StepPacketDrawing } from '../../guide/server/step-packet-view.ts'
import { readSubmission } from '../../instructors/submission/read-submission.ts'
import { SOLVED } from '../instructors/submission/made-submission.ts'

const { manifest, captures } = await readSubmission(join(SOLVED, 'lab-2-embedded.labgrade'))
const id = manifest.steps.find(({ id }) => id === 'pod-to-service')?.capture ?? ''
const capture = captures.get(id)?.capture
if (!capture) throw new Error('The recorded lab 2 has no capture of its step pod-to-service.')
const snapshot = new Snapshot(capture)

let reads: { resolve(snapshot: Snapshot): void; reject(error: Error): void }[]
let pushed: (string | null)[]
let troubles: unknown[]
let drawing: StepPacketDrawing
beforeEach(() => {
  reads = []
  pushed = []
  troubles = []
  drawing = new StepPacketDrawing(
    () => new Promise((resolve, reject) => reads.push({ resolve, reject })),
    (push) => pushed.push(push?.step ?? null),
    (error) => troubles.push(error),
  )
})

/** Answers a read, and waits for what follows. */
async function answer(read: number): Promise<void> {
  reads[read]?.resolve(snapshot)
  await turn()
}

test('a step that is opened is drawn, and again once a change is over', async () => {
  drawing.follow(2, 'pod-to-service', false)
  await answer(0)
  expect(pushed).toEqual(['pod-to-service'])
  drawing.follow(2, 'pod-to-service', false)
  expect(reads).toHaveLength(1)
  drawing.follow(2, 'pod-to-service', true)
  expect(reads).toHaveLength(1)
  drawing.follow(2, 'pod-to-service', false)
  expect(reads).toHaveLength(2)
})

test('a change during a drawing is drawn after it, one read at a time', async () => {
  drawing.follow(2, 'pod-to-service', false)
  drawing.follow(2, 'pod-to-service', true)
  drawing.follow(2, 'pod-to-service', false)
  expect(reads).toHaveLength(1)
  await answer(0)
  expect(reads).toHaveLength(2)
  await answer(1)
  expect(reads).toHaveLength(2)
})

test('the packet of a step that was left is not shown, and that of the next one is drawn at once', async () => {
  drawing.follow(2, 'pod-to-service', false)
  drawing.follow(2, 'output', false)
  await answer(0)
  expect(pushed).toEqual([])
  await answer(1)
  expect(pushed).toEqual(['output'])
})

test('a step without a packet takes the last one away, without a read', async () => {
  drawing.follow(2, 'tools', false)
  await turn()
  expect(pushed).toEqual([null])
  expect(reads).toHaveLength(0)
  expect(troubles).toEqual([])
})

test('nodes that can not be read are read again after the next read of the guide', async () => {
  drawing.follow(2, 'pod-to-service', false)
  reads[0]?.reject(new Error('no nodes'))
  await turn()
  expect(reads).toHaveLength(1)
  drawing.follow(2, 'pod-to-service', false)
  await answer(1)
  expect(pushed).toEqual(['pod-to-service'])
  expect(troubles).toEqual([])
})
