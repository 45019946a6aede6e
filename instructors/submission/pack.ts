import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import type { Cluster } from '../../cluster/driver.ts'
import { birthMarks, clusterIdentity } from '../../grading/api-object.ts'
import { type ClassKey, seedOf, signatureOf } from '../../grading/class-key.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import { notesOf } from '../../grading/lab-notes.ts'
import { answerNote } from '../../grading/learning-notes.ts'
import type { Moment, StoredCapture } from '../../grading/moments.ts'
import type { Report } from '../../grading/report-schema.ts'
import { projectRoot } from '../../host/layout.ts'
import { type Manifest, type ManifestCapture, manifestSchema, printItems } from './manifest.ts'
import { type TarEntry, writeTarGz } from './tar.ts'

const ANSWER = /^answer\.(.+)$/
const MOST = 100

/**
 * The learner's answers to a lab's questions, as the lab's notes in the cluster keep them; for a
 * human reader.
 */
export function readAnswers(items: readonly unknown[], lab: number): Manifest['answers'] {
  return Object.entries(notesOf(items, lab)?.data ?? {})
    .flatMap(([key, answer]) => {
      const question = ANSWER.exec(key)?.[1]
      return question === undefined
        ? []
        : [{ question: question.slice(0, 200), answer: textOf(answer).slice(0, 2000) }]
    })
    .slice(0, MOST)
}

/** The text of an answer's note; a note of another shape is returned unchanged. */
function textOf(note: string): string {
  try {
    return answerNote.safeParse(JSON.parse(note.slice(0, 4000))).data?.text ?? note
  } catch {
    return note
  }
}

interface CaptureToHandIn {
  id: string
  takenAt: string
  capture: Capture
}

/**
 * The bytes of a `.labgrade` file. Content that several captures share is stored once. Signed where
 * a key is given.
 * @throws Error when the manifest does not match its schema
 */
export function writeSubmission(
  about: Omit<Manifest, 'schema' | 'captures'>,
  captures: readonly CaptureToHandIn[],
  key?: ClassKey,
): Buffer {
  const entries = new Map<string, TarEntry>()
  const described = captures.map(({ id, takenAt, capture }): ManifestCapture => {
    const files = captureFiles(capture).map(({ path, content }) => {
      const sha256 = createHash('sha256').update(content).digest('hex')
      if (!entries.has(sha256)) entries.set(sha256, { path: `captures/${id}/${path}`, content })
      return { path, sha256 }
    })
    return { id, takenAt, files }
  })
  const manifest = manifestSchema.parse({
    schema: 'kube-service-labs/submission/v1',
    ...about,
    captures: described,
  })
  const content = Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`)
  const signature = key && Buffer.from(`${signatureOf(key, manifest.learner, content)}\n`)
  return writeTarGz(
    [
      { path: 'submission.json', content },
      ...(signature ? [{ path: 'signature', content: signature }] : []),
      ...entries.values(),
    ],
    new Date(manifest.submittedAt),
  )
}

function captureFiles({ objects, nodes }: Capture): TarEntry[] {
  return [
    { path: 'objects.json', content: Buffer.from(printItems(objects.items)) },
    ...nodes.flatMap(({ name, files }) =>
      [...files].map(([file, text]) => ({
        path: `nodes/${name}/${file}`,
        content: Buffer.from(text),
      })),
    ),
  ]
}

export interface HandIn {
  lab: LabDefinition
  learner: string
  cluster: Pick<Cluster, 'driver' | 'name'>
  moments: readonly Moment[]
  /** The cluster's current state and its report; absent if it is no longer up. */
  now?: { report: Report; capture: Capture } | undefined
  key?: ClassKey | undefined
}

/** The bytes of a learner's `.labgrade` file, from the captures kept during the lab. */
export function packSubmission({ lab, learner, cluster, moments, now, key }: HandIn): Buffer {
  // Steps that passed at one moment share its capture, which is named after the first of them.
  const captures = new Map<number, CaptureToHandIn>()
  const keptAs = (id: string, { takenAt, capture }: StoredCapture): CaptureToHandIn => {
    const kept = captures.get(takenAt) ?? { id, takenAt: isoTime(takenAt), capture }
    captures.set(takenAt, kept)
    return kept
  }
  const steps = lab.steps.map(({ id }): Manifest['steps'][number] => {
    const moment = moments.find(({ step }) => step === id)
    const verdict =
      now?.report.steps.find((step) => step.id === id)?.verdict ?? (moment ? 'passed' : 'not yet')
    if (!moment) return { id, verdict }
    const { passedAt, beforeAnswer } = moment
    const own = keptAs(id, moment)
    const before = beforeAnswer && keptAs(`${id}-held`, beforeAnswer)
    return { id, verdict, passedAt, capture: own.id, ...(before && { held: before.id }) }
  })
  const at = new Date()
  const last = now?.capture ?? moments.toSorted((a, b) => a.takenAt - b.takenAt).at(-1)?.capture
  const final = now && {
    id: 'final',
    takenAt: isoTime(now.capture.takenAt ?? at.getTime()),
    capture: now.capture,
  }
  const { node: _node, ...facts } = now?.report.versions ?? { node: '' }
  const kernel = now?.capture.nodes[0]?.files.get('versions')?.split('\n')[0]
  return writeSubmission(
    {
      learner,
      lab: lab.number,
      seed: seedOf(learner),
      submittedAt: at.toISOString(),
      clock: { offsetMinutes: -at.getTimezoneOffset() },
      cluster: {
        driver: cluster.driver,
        name: cluster.name,
        identity: clusterIdentity(birthMarks(last?.objects.items ?? [])),
      },
      versions: {
        project: projectVersion(),
        node: process.version,
        ...facts,
        kernel: kernel || undefined,
      },
      steps,
      final: final?.id,
      answers: readAnswers(last?.objects.items ?? [], lab.number),
    },
    [...captures.values(), ...(final ? [final] : [])],
    key,
  )
}

const isoTime = (milliseconds: number) => new Date(milliseconds).toISOString()

function projectVersion(): string {
  const { version }: { version: string } = JSON.parse(
    readFileSync(join(projectRoot, 'package.json'), 'utf8'),
  )
  return version
}
