import { afterAll, describe, expect, test } from 'vitest'
import { EVERYTHING } from '../../../bench/made-class.ts'
import { seedOf } from '../../../grading/class-key.ts'
import { loadSpec } from '../../../grading/grader.ts'
import { classResult } from '../../../instructors/class/class-result.ts'
import { judgeFile } from '../../../instructors/class/judge-file.ts'
import { ALICE_POINTS, changedFile } from '../submission/made-submission.ts'
import { removeWritten } from '../submission/tar-bytes.ts'
import { judgedEntry } from './made-class.ts'

afterAll(removeWritten)

const kinds = (result: ReturnType<typeof classResult>) =>
  Object.fromEntries(
    result.graded.map(({ learner, flags }) => [learner, flags.map(({ kind }) => kind)]),
  )

describe('copies', () => {
  test('one cluster, two learners', () => {
    const shared = { prints: { clusters: ['c1'], drawn: ['uid a', 'uid b', 'uid c'] } }
    const result = classResult(
      [judgedEntry('alice', shared), judgedEntry('bob', shared), judgedEntry('carol')],
      1,
    )
    expect(kinds(result)).toEqual({ alice: ['same cluster'], bob: ['same cluster'], carol: [] })
    expect(result.graded[0]?.flags[0]?.text).toContain('bob')
  })

  test('two identical files are reported, one is not', () => {
    const two = classResult(
      [
        judgedEntry('alice', { prints: { files: ['x', 'y'] } }),
        judgedEntry('bob', { prints: { files: ['x', 'y'] } }),
      ],
      1,
    )
    expect(kinds(two)).toEqual({ alice: ['same captures'], bob: ['same captures'] })
    const one = classResult(
      [
        judgedEntry('alice', { prints: { files: ['x'] } }),
        judgedEntry('bob', { prints: { files: ['x'] } }),
      ],
      1,
    )
    expect(kinds(one)).toEqual({ alice: [], bob: [] })
  })

  test('the seed of another learner is reported with its owner', () => {
    const result = classResult(
      [
        judgedEntry('alice'),
        judgedEntry('bob', { seed: seedOf('alice') }),
        judgedEntry('carol', { seed: '0'.repeat(16) }),
        judgedEntry('dave', { prints: { learners: ['Dave'] } }),
        judgedEntry('erin', { prints: { learners: ['alice'] } }),
      ],
      1,
    )
    expect(result.graded.map(({ flags }) => flags[0]?.text)).toEqual([
      undefined,
      'Its seed is that of alice.',
      'Its seed is not that of carol.',
      undefined,
      'Its cluster has the variant of alice.',
    ])
  })

  test('of many copies only the first are named', () => {
    const names = Array.from({ length: 9 }, (_, index) => `learner${index}`)
    const result = classResult(
      names.map((name) => judgedEntry(name, { prints: { clusters: ['c1'] } })),
      1,
    )
    expect(result.graded[0]?.flags[0]?.text).toMatch(/learner1, learner2, learner3 and 5 more/)
  })

  test('one learner’s labs and attempts may share a cluster', () => {
    const shared = { prints: { clusters: ['c1'], files: ['x', 'y'], drawn: ['uid a', 'uid b'] } }
    const early = { ...shared, submittedAt: '2026-11-20T09:00:00.000Z', file: 'early.labgrade' }
    for (const name of ['alice', 'Alice']) {
      const result = classResult([judgedEntry(name, early), judgedEntry('alice', shared)], 1)
      const counted = Object.fromEntries(
        result.graded.map(({ file, counts, flags }) => [file, [counts, flags]]),
      )
      expect(counted).toEqual({ 'early.labgrade': [false, []], 'alice-lab2.labgrade': [true, []] })
      expect(result.labs[0]?.learners).toBe(1)
    }
  })
})

test('figures and exit codes', () => {
  const done = { allPassed: true }
  const result = classResult([judgedEntry('alice', done), judgedEntry('bob')], 1)
  expect(result.labs[0]).toMatchObject({ learners: 2, finished: 1, meanPercent: 81.3 })
  expect(result.labs[0]?.steps[1]).toMatchObject({
    learners: 2,
    passed: 1,
    failed: 1,
    notJudged: 0,
  })
  expect(result.labs[0]?.steps[2]).toMatchObject({ learners: 0, notJudged: 2 })
  expect(result.exitCode).toBe(0)
  expect(classResult([judgedEntry('alice', done)], 1).exitCode).toBe(0)
  expect(
    classResult([judgedEntry('alice', done), { file: 'x', refused: 'It is empty.' }], 1).exitCode,
  ).toBe(2)
  expect(classResult([], 1).exitCode).toBe(2)
})

describe('real submissions', () => {
  test('a copy under another name is found by cluster, captures and seed; own work is not', async () => {
    const files = [
      await changedFile('alice'),
      await changedFile('bob', {
        manifest: (manifest) => {
          manifest.seed = seedOf('alice')
        },
      }),
      await changedFile('carol', { rewritten: EVERYTHING, laterMs: 60_000 }),
      await changedFile('dave', { rewritten: EVERYTHING, laterMs: 90_000 }),
    ]
    const result = classResult(await Promise.all(files.map((file) => judgeFile(file))), 1)
    expect(result.graded.map(({ score }) => score)).toEqual(files.map(() => ALICE_POINTS))
    expect(kinds(result)).toEqual({
      alice: ['same cluster', 'same captures'],
      bob: ['same cluster', 'same captures', 'seed'],
      carol: [],
      dave: [],
    })
  })

  test('the verdicts in a file are not used', async () => {
    const file = await changedFile('alice', {
      // Every node kept the chains of iptables mode, in every capture.
      text: (text, path) =>
        path.endsWith('iptables-save')
          ? text.replace(':KUBE-MARK-MASQ', ':KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-MARK-MASQ')
          : text,
    })
    const judged = await judgeFile(file)
    if (!('graded' in judged)) throw new Error(judged.refused)
    const flush = judged.graded.steps.find(({ id }) => id === 'flush')
    expect(flush).toMatchObject({ verdict: 'failed', points: 0, claimed: 'passed' })
    expect(judged.graded.flags).toEqual([
      { kind: 'claims', text: expect.stringContaining('flush') },
    ])
  })

  test('a step without a capture of its moment is not passed, even if the file claims it', async () => {
    const file = await changedFile('alice', {
      manifest: (manifest) => {
        for (const step of manifest.steps) delete step.capture
      },
      // Without the notes, too, which the cluster keeps of past moments.
      text: (text, path) =>
        path === 'objects.json' ? text.replaceAll('"lab-2"', '"other"') : text,
    })
    const judged = await judgeFile(file)
    if (!('graded' in judged)) throw new Error(judged.refused)
    const open = judged.graded.steps
      .filter(({ verdict }) => verdict !== 'passed')
      .map(({ id, verdict }) => [id, verdict])
    const { steps } = await loadSpec({ folder: '02-ipvs' })
    // The final capture shows the scheduler, but neither answers nor earlier moments.
    const lost = steps.filter(
      ({ id, moment, predict, question }) => id !== 'scheduler' && (moment || predict || question),
    )
    expect(open).toEqual(
      lost.map(({ id, needsCluster }) => [id, needsCluster ? 'not applicable' : 'not yet']),
    )
  })
})
