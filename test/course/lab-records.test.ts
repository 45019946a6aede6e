import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { LabRecords } from '../../course/lab-records.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { Moments } from '../../grading/moments.ts'
import { Snapshot } from '../../grading/snapshot.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'records-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const cluster = { driver: 'embedded', name: 'mine' } as const
const [first, second] = readLab(2).steps

/** A cluster with the notes that a guide has kept of lab 2. */
function snapshot(guide?: string, uid = 'node-1'): Snapshot {
  const items: object[] = [{ kind: 'Node', metadata: { name: 'n', uid } }]
  if (guide !== undefined)
    items.push({
      kind: 'ConfigMap',
      metadata: { name: 'lab-2', namespace: 'default' },
      data: { guide },
    })
  return new Snapshot({ objects: { apiVersion: 'v1', kind: 'List', items }, nodes: [], takenAt: 1 })
}
const note = (workedMs: number) =>
  JSON.stringify({ at: first?.id, workedMs, shown: [], held: [], passed: [] })

test('points are those that steps gave when they passed first, also after their state has gone', () => {
  const moments = new Moments(cluster.driver, cluster.name, root)
  moments.keep(2, snapshot(), [
    { id: first?.id ?? '', verdict: 'passed' },
    { id: second?.id ?? '', verdict: 'passed', cost: 1 },
  ])
  moments.keep(2, snapshot(), [{ id: first?.id ?? '', verdict: 'failed' }])
  const records = new LabRecords(cluster, root)
  expect([...records.pointsOf(2, snapshot())]).toEqual([
    [first?.id, first?.points],
    [second?.id, (second?.points ?? 0) - 1],
  ])
  const [one, two] = records.of(snapshot(note(125_000)))
  expect(one).toEqual({ number: 1, isBegun: false, kept: 0, of: 100, minutes: 0 })
  expect(two).toEqual({
    number: 2,
    isBegun: true,
    kept: (first?.points ?? 0) + (second?.points ?? 0) - 1,
    of: 100,
    minutes: 2,
  })
})

test('a new cluster has earned nothing, and a note that was edited tells no time', () => {
  new Moments(cluster.driver, cluster.name, root).keep(2, snapshot(), [
    { id: first?.id ?? '', verdict: 'passed' },
  ])
  const records = new LabRecords(cluster, root)
  expect(records.pointsOf(2, snapshot(undefined, 'node-2')).size).toBe(0)
  expect(records.of(snapshot('nonsense'))[1]).toMatchObject({ isBegun: true, minutes: 0 })
})
