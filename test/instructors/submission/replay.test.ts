// What was right on the cluster is right offline: the recorded submissions of every lab, judged
// again from their captures alone.

import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { asApiObjects } from '../../../grading/api-object.ts'
import { loadSpec } from '../../../grading/grader.ts'
import { listLabs } from '../../../grading/lab-definition.ts'
import { Snapshot } from '../../../grading/snapshot.ts'
import { type JudgedFile, judgeFile } from '../../../instructors/class/judge-file.ts'
import { readSubmission } from '../../../instructors/submission/read-submission.ts'
import { rejudge } from '../../../instructors/submission/rejudge.ts'
import { changedFile, SOLVED } from './made-submission.ts'
import { removeWritten } from './tar-bytes.ts'

afterAll(removeWritten)

const files = readdirSync(SOLVED).filter((name) => name.endsWith('.labgrade'))

function gradedIn(judged: JudgedFile) {
  if ('refused' in judged) throw new Error(judged.refused)
  return judged.graded
}

/** What became of the steps that were not passed. */
const openIn = (judged: JudgedFile) =>
  Object.fromEntries(
    gradedIn(judged).steps.flatMap(({ id, verdict }) =>
      verdict === 'passed' ? [] : [[id, verdict]],
    ),
  )

async function changed(lab: number, edit: (capture: Capture) => void): Promise<JudgedFile> {
  const source = await readSubmission(join(SOLVED, `lab-${lab}-embedded.labgrade`))
  return judgeFile(await changedFile('alice', { source, edit }, `alice-lab${lab}.labgrade`))
}

test('every lab has been recorded', () => {
  const labs = new Set(files.map((name) => Number(/^lab-(\d+)-/.exec(name)?.[1])))
  expect([...labs].sort((a, b) => a - b)).toEqual(listLabs().map(({ number }) => number))
})

test.each(files)('%s: every step that passed passes again, without a flag', async (name) => {
  const judged = await judgeFile(join(SOLVED, name))
  const graded = gradedIn(judged)
  // A step that the lab has since then was not handed in.
  const { manifest } = await readSubmission(join(SOLVED, name))
  const handedIn = Object.entries(openIn(judged)).filter(([id]) =>
    manifest.steps.some((step) => step.id === id),
  )
  const verdicts = new Set(handedIn.map(([, verdict]) => verdict))
  // What the machine was too busy to measure cannot be found out later either.
  if (graded.lab === 6) verdicts.delete('could not check')
  expect([...verdicts].filter((verdict) => verdict !== 'not applicable')).toEqual([])
  expect(graded.flags).toEqual([])
  expect(graded.score).toBeGreaterThanOrEqual(60)
  expect(basename(graded.file)).toBe(name)
})

test.each([
  ['that the kernel can do it', 'nftables: runs\nipvs: runs\n'],
  ['nothing of the kernel', undefined],
])(
  'lab 7: nftables mode is not "not applicable" because of a capture that reports %s',
  async (_what, output) => {
    const judged = await changed(7, ({ nodes }) => {
      for (const { files } of nodes)
        if (files.delete('kernel-modes') && output !== undefined) files.set('kernel-modes', output)
    })
    const open = ['nft-tables', 'nft-maps', 'nft-alone', 'choose-here']
    expect(openIn(judged)).toMatchObject(Object.fromEntries(open.map((id) => [id, 'not yet'])))
  },
)

test('lab 8: an incident that is not repaired is recognised without the cluster', async () => {
  const judged = await changed(8, (capture) => {
    capture.objects = JSON.parse(
      JSON.stringify(capture.objects).replaceAll('{"app":"shop"}', '{"app":"shoop"}'),
    )
  })
  expect(openIn(judged)).toMatchObject({ cause: 'failed', rules: 'failed', whole: 'failed' })
})

describe('lab 8: two incidents in one submission', async () => {
  const { captures } = await readSubmission(join(SOLVED, 'lab-8-embedded.labgrade'))
  const spec = await loadSpec({ folder: '08-incidents' })
  const [{ capture } = { capture: undefined }] = [...captures.values()].slice(-1)
  if (!capture) throw new Error('the recording has no capture')
  /** The solved capture in an attempt; not named if there is no answer. */
  const made = (attempt: string | undefined, isNamed: boolean) => {
    const copy: typeof capture = { ...capture, objects: structuredClone(capture.objects) }
    const notes = asApiObjects(copy.objects.items).find(({ metadata }) => metadata.name === 'lab-8')
    const data = notes?.data ?? {}
    if (attempt !== undefined)
      data.attempt = JSON.stringify({ id: attempt, steps: spec.steps.map(({ id }) => id) })
    if (!isNamed) for (const key of ['answer.diagnosis', 'answered.diagnosis']) delete data[key]
    copy.objects.items = copy.objects.items.map((item) =>
      asApiObjects([item])[0]?.metadata.name === 'lab-8' ? notes : item,
    )
    return new Snapshot(copy)
  }
  const verdictWith = async (own: Snapshot, final: Snapshot | undefined) => {
    const steps = spec.steps.map(({ id }) => ({ id, verdict: 'passed' as const, capture: 'own' }))
    const snapshots = new Map([['own', own], ...(final ? [['final', final] as const] : [])])
    const handedIn = { steps, final: final && 'final' }
    const outcomes = await rejudge(spec, handedIn, (id = '') => snapshots.get(id))
    return outcomes.find(({ id }) => id === 'diagnosis')?.verdict
  }

  test('the right diagnosis of one earns nothing for the other', async () => {
    expect(await verdictWith(made('first', true), made('second', false))).toBe('failed')
  })

  test.each([
    ['of the same incident counts', made('first', true), made('first', false)],
    ['counts after the incident was left', made('first', true), made(undefined, false)],
    ['counts if the cluster was not up', made('first', true), undefined],
    [
      'counts as before in a submission of an earlier version',
      made(undefined, true),
      made(undefined, false),
    ],
  ])('a capture %s', async (_what, own, final) =>
    expect(await verdictWith(own, final)).toBe('passed'),
  )
})
