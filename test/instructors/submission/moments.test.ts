import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { StepOutcome } from '../../../grading/failure.ts'
import { Moments } from '../../../grading/moments.ts'
import { Snapshot } from '../../../grading/snapshot.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'moments-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const passed = (...ids: string[]): StepOutcome[] => ids.map((id) => ({ id, verdict: 'passed' }))
const snapshot = (takenAt: number, rules = 'rules', uid = 'node-1') =>
  new Snapshot({
    objects: {
      apiVersion: 'v1',
      kind: 'List',
      items: [{ kind: 'Node', metadata: { name: 'n', uid } }],
    },
    nodes: [{ name: 'n', files: new Map([['iptables-save', rules]]) }],
    takenAt,
  })
/** With notes of lab 2 about an attempt at its step `web`. */
function inAttempt(takenAt: number, id: string, rules: string): Snapshot {
  const { capture } = snapshot(takenAt, rules)
  const data = { attempt: JSON.stringify({ id, steps: ['web'] }) }
  capture.objects.items.push({
    kind: 'ConfigMap',
    metadata: { name: 'lab-2', namespace: 'default' },
    data,
  })
  return new Snapshot(capture)
}
const kept = (moments: Moments) =>
  moments
    .all(2)
    .map(({ step, takenAt, capture }) => [
      step,
      takenAt,
      capture.nodes[0]?.files.get('iptables-save'),
    ])
const open = () => new Moments('embedded', 'mine', root)

test('the capture of the moment when a step first passed is kept for later processes', () => {
  open().keep(2, snapshot(1000, 'first'), [...passed('web'), { id: 'flush', verdict: 'failed' }])
  open().keep(2, snapshot(2000, 'second'), passed('web', 'flush'))
  expect(kept(open())).toEqual([
    ['web', 1000, 'first'],
    ['flush', 2000, 'second'],
  ])
  expect(open().labs()).toEqual([2])
  expect(open().all(3)).toEqual([])
})

test('a step that passes again in another attempt is kept again, and only such a step', () => {
  open().keep(2, inAttempt(1000, 'first', 'one'), passed('web', 'flush'))
  open().keep(2, inAttempt(2000, 'first', 'two'), passed('web', 'flush'))
  open().keep(2, inAttempt(3000, 'second', 'three'), passed('web', 'flush'))
  expect(kept(open())).toEqual([
    ['web', 3000, 'three'],
    ['flush', 1000, 'one'],
  ])
})

test('a step whose state holds before it is answered has the captures of both moments', () => {
  const waiting: StepOutcome = { id: 'flush', verdict: 'not yet', unanswered: 'answer' }
  open().keep(2, snapshot(1000, 'held'), [waiting])
  expect(kept(open())).toEqual([])
  open().keep(2, snapshot(2000, 'later'), [waiting])
  open().keep(2, snapshot(3000, 'answered'), passed('flush'))
  open().keep(2, snapshot(4000, 'again'), passed('flush'))
  const [moment] = open().all(2)
  expect([moment?.takenAt, moment?.beforeAnswer?.takenAt]).toEqual([3000, 1000])
  expect(moment?.beforeAnswer?.capture.nodes[0]?.files.get('iptables-save')).toBe('held')
})

test('steps of one round share a file, and rounds without new passes write nothing', () => {
  const moments = open()
  moments.keep(2, snapshot(1000), passed('a', 'b', 'c'))
  const files = () => readdirSync(join(root, 'moments/embedded-mine/lab-2')).sort()
  const before = files()
  expect(before).toHaveLength(2)
  for (let round = 0; round < 50; round++) moments.keep(2, snapshot(2000 + round), passed('a', 'c'))
  moments.keep(2, snapshot(9000), [])
  expect(files()).toEqual(before)
})

test('a new cluster of the same name starts without captures; another name has its own', () => {
  open().keep(2, snapshot(1000), passed('web'))
  new Moments('embedded', 'other', root).keep(2, snapshot(1500, 'other'), passed('tools'))
  open().keep(2, snapshot(2000, 'new', 'node-2'), passed('flush'))
  expect(kept(open())).toEqual([['flush', 2000, 'new']])
  expect(kept(new Moments('embedded', 'other', root))).toEqual([['tools', 1500, 'other']])
})

test('a process that has kept a moment keeps it again when its folder was deleted', () => {
  const moments = open()
  moments.keep(2, snapshot(1000), passed('web'))
  rmSync(join(root, 'moments'), { recursive: true })
  moments.keep(2, snapshot(2000, 'later'), passed('web'))
  expect(kept(open())).toEqual([['web', 2000, 'later']])
})

test('captures that are missing or damaged on disk are skipped, and grading continues', () => {
  open().keep(2, snapshot(1000), passed('web'))
  const folder = join(root, 'moments/embedded-mine/lab-2')
  for (const name of readdirSync(folder))
    if (name.endsWith('.gz')) writeFileSync(join(folder, name), 'damaged')
  expect(open().all(2)).toEqual([])
  writeFileSync(join(folder, 'index.json'), '{')
  expect(open().all(2)).toEqual([])
  open().keep(2, snapshot(3000, 'again'), passed('web'))
  expect(kept(open())).toEqual([['web', 3000, 'again']])
})

test('if the folder cannot be written, grading continues without keeping captures', () => {
  writeFileSync(join(root, 'moments'), 'a file in the way')
  expect(() => open().keep(2, snapshot(1000), passed('web'))).not.toThrow()
  expect(open().all(2)).toEqual([])
})
