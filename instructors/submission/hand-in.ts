// Hands in a learner's work on a lab: grades it once more, writes the submission, and reads it back
// as an instructor will.

import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type Cluster, downText } from '../../cluster/driver.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { type ClassKey, classWord, readClassKey, wordIn } from '../../grading/class-key.ts'
import { gradeWith, loadSpec } from '../../grading/grader.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { Moments } from '../../grading/moments.ts'
import type { Report } from '../../grading/report-schema.ts'
import { Refusal } from '../../host/main.ts'
import { describeExam, examInSubmission } from '../class/exam-result.ts'
import { wordFlags } from '../class/judge-file.ts'
import { type HandIn, packSubmission } from './pack.ts'
import { readSubmission, type Submission } from './read-submission.ts'
import { reportSubmission } from './rejudge.ts'

export interface HandedIn {
  /** Its path, relative to the current folder. */
  file: string
  sizeBytes: number
  isSigned: boolean
  /** What an instructor will see. */
  report: Report
  /** Sentences about what was handed in: what it was made from, and what is missing. */
  notes: string[]
}

/**
 * Writes `LEARNER-labN.labgrade` into a folder (default: `DIR`, else submissions), signed if
 * `CLASS_KEY_FILE` names a key. A cluster that is not up hands in the captures that were kept
 * during the lab.
 * @throws Refusal when there is nothing to hand in
 */
export async function handIn(
  cluster: Cluster,
  lab: LabDefinition,
  learner: string,
  folder = process.env.DIR || 'submissions',
): Promise<HandedIn> {
  const { CLASS_KEY_FILE } = process.env
  const key = CLASS_KEY_FILE ? readClassKey(CLASS_KEY_FILE) : undefined
  const now = (await cluster.running()) ? await gradeNow(lab, cluster) : undefined
  const kept = new Moments(cluster.driver, cluster.name).all(lab.number)
  if (!now && kept.length === 0)
    throw new Refusal(
      `${downText(cluster)} and no capture of lab ${lab.number} was kept: work on it with \`make lab-${lab.number}\`.`,
    )
  const bytes = packSubmission({ lab, learner, cluster, moments: kept, now, key })
  const file = join(folder, `${learner}-lab${lab.number}.labgrade`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, bytes)
  renameSync(`${file}.new`, file)
  const submission = await readSubmission(file, key)
  return {
    file,
    sizeBytes: bytes.length,
    isSigned: key !== undefined,
    report: await reportSubmission(submission, basename(file)),
    notes: [
      ...(now
        ? []
        : [`${downText(cluster)}. The captures that were kept during the lab are submitted.`]),
      ...examNote(submission),
      ...wordWarning(lab, submission, key),
    ],
  }
}

/** What the class report will say about the exam of lab 8. */
function examNote(submission: Submission): string[] {
  const exam = examInSubmission(submission)
  return exam ? [`The exam is handed in with it: ${describeExam(exam)}.`] : []
}

/**
 * The warning if captures do not show the word of the class, which the cluster must hold before
 * steps pass.
 */
function wordWarning(
  { number }: LabDefinition,
  { captures, manifest }: Submission,
  key: ClassKey | undefined,
): string[] {
  const { CLASS } = process.env
  const submitted = [...captures.values()].flatMap(
    ({ capture }) => wordIn(capture.objects.items) ?? [],
  )
  const word = CLASS ? classWord(CLASS) : key ? undefined : submitted.at(-1)
  const flags = wordFlags(captures, manifest.learner, { key, word })
  if (flags.length === 0) return []
  const set = CLASS ? `CLASS=${CLASS}` : key ? 'CLASS_KEY_FILE=…' : 'CLASS=…'
  return [
    `The class report will say: ${flags.map(({ text }) => text).join(' ')}`,
    `To record it again, work on a new cluster: \`make down\`, then \`${set} make lab-${number}\`. Or tell your instructor why.`,
  ]
}

/**
 * Grades once more, which keeps a capture for every step that passes now, and captures the whole
 * cluster.
 */
async function gradeNow(lab: LabDefinition, cluster: Cluster): Promise<HandIn['now']> {
  const source = await openCluster(cluster)
  const { driver, name } = cluster
  const request = { lab: lab.number, source: { kind: 'cluster', driver, name } as const }
  const report = await gradeWith(await loadSpec(lab), request, () => source)
  return { report, capture: await takeCapture(cluster, source.live.client, 'thorough') }
}
