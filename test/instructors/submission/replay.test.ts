// What was right on the cluster is right offline: the recorded submissions of every lab, judged again from their captures alone.

import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { projectRoot } from '../../../host/layout.ts'
import { type Judged, judgeFile } from '../../../instructors/class/judge-file.ts'
import { writeSubmission } from '../../../instructors/submission/pack.ts'
import { readSubmission } from '../../../instructors/submission/read-submission.ts'
import { fileOf } from './tar-bytes.ts'

const SOLVED = join(projectRoot, 'data/solved')
const files = readdirSync(SOLVED).filter((name) => name.endsWith('.labgrade'))

function gradedIn(judged: Judged) {
  if ('refused' in judged) throw new Error(judged.refused)
  return judged.graded
}

/** What became of the steps that were not passed. */
const openIn = (judged: Judged) =>
  Object.fromEntries(gradedIn(judged).steps.flatMap(({ id, verdict }) => (verdict === 'passed' ? [] : [[id, verdict]])))

async function changed(lab: number, change: (capture: Capture) => Capture): Promise<Judged> {
  const { manifest, captures } = await readSubmission(join(SOLVED, `lab-${lab}-embedded.labgrade`))
  const { schema: _schema, captures: _captures, ...about } = manifest
  const edited = [...captures].map(([id, { capture, takenAt }]) => {
    return { id, takenAt: new Date(takenAt).toISOString(), capture: change(capture) }
  })
  return judgeFile(fileOf(writeSubmission(about, edited), `alice-lab${lab}.labgrade`))
}

const inFile = (file: string, edit: (text: string) => string | undefined) => (capture: Capture) => ({
  ...capture,
  nodes: capture.nodes.map(({ name, files }) => ({
    name,
    files: new Map(
      [...files].flatMap(([path, text]) => {
        const edited = path === file ? edit(text) : text
        return edited === undefined ? [] : [[path, edited] as const]
      }),
    ),
  })),
})

test('every lab has been recorded', () => {
  const labs = new Set(files.map((name) => Number(/^lab-(\d+)-/.exec(name)?.[1])))
  expect([...labs].sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
})

test.each(files)('%s: every step that passed passes again, without a flag', async (name) => {
  const judged = await judgeFile(join(SOLVED, name))
  const graded = gradedIn(judged)
  const verdicts = new Set(Object.values(openIn(judged)))
  // What the machine was too busy to measure nobody can know later either.
  if (graded.lab === 6) verdicts.delete('could not check')
  expect([...verdicts].filter((verdict) => verdict !== 'not applicable')).toEqual([])
  expect(graded.flags).toEqual([])
  expect(graded.score).toBeGreaterThanOrEqual(60)
  expect(basename(graded.file)).toBe(name)
})

test.each([
  ['that the kernel can do it', 'nftables: runs\nipvs: runs\n'],
  ['nothing of the kernel', undefined],
])('lab 7: nftables mode is not excused by a capture that reports %s', async (_what, said) => {
  const judged = await changed(
    7,
    inFile('kernel-modes', () => said),
  )
  const open = ['nft-tables', 'nft-maps', 'nft-alone', 'choose-here']
  expect(openIn(judged)).toMatchObject(Object.fromEntries(open.map((id) => [id, 'not yet'])))
})

test('lab 8: an incident that is not repaired is recognised without the cluster', async () => {
  const judged = await changed(8, (capture) => ({
    ...capture,
    objects: JSON.parse(JSON.stringify(capture.objects).replaceAll('{"app":"shop"}', '{"app":"shoop"}')),
  }))
  expect(openIn(judged)).toMatchObject({ cause: 'failed', rules: 'failed', whole: 'failed' })
})
