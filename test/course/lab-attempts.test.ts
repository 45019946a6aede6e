// Both guides notice that another incident was opened, by whichever command: its steps begin again.

import { expect, test } from 'vitest'
import { LabAttempts } from '../../course/lab-attempts.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'

const lab = readLab(5)

/** A cluster with the notes of a lab about an attempt at its incident, if there is one. */
function snapshot(attempt?: string, of = lab.number): Snapshot {
  const data = {
    ...(attempt && { attempt: JSON.stringify({ id: attempt, steps: ['incident'] }) }),
  }
  const notes = { kind: 'ConfigMap', metadata: { namespace: 'default', name: `lab-${of}` }, data }
  return new Snapshot({ objects: { apiVersion: 'v1', kind: 'List', items: [notes] }, nodes: [] })
}

test('the steps of an incident begin again when another one is opened, or it ends with a reset', () => {
  const attempts = new LabAttempts()
  const begunAgain = (attempt?: string) => attempts.begunAgain(lab, snapshot(attempt))
  expect(begunAgain('one'), 'nothing was read before').toEqual([])
  expect(begunAgain('one')).toEqual([])
  expect(begunAgain('two')).toEqual(['incident'])
  expect(begunAgain('two')).toEqual([])
  expect(begunAgain()).toEqual(['incident'])
})

test('another lab is not compared with the one before', () => {
  const attempts = new LabAttempts()
  attempts.begunAgain(lab, snapshot('one'))
  const other = readLab(3)
  expect(attempts.begunAgain(other, snapshot('two', other.number))).toEqual([])
  expect(attempts.begunAgain(lab, snapshot('two'))).toEqual([])
})
