import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import type { Cluster } from '../../cluster/driver.ts'
import { birthMarks, clusterIdentity } from '../../grading/cluster-identity.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import { seedOf } from '../../grading/learner.ts'
import type { Moment } from '../../grading/moments.ts'
import type { Report } from '../../grading/report-schema.ts'
import type { ClassKey } from '../../grading/signature.ts'
import { projectRoot } from '../../host/layout.ts'
import { readAnswers } from './answers.ts'
import type { Manifest } from './manifest.ts'
import { type CaptureToHandIn, writeSubmission } from './write-submission.ts'

export interface HandIn {
  lab: LabDefinition
  learner: string
  cluster: Pick<Cluster, 'driver' | 'name'>
  moments: readonly Moment[]
  /** The cluster's current state and its report; absent if it is no longer up. */
  now?: { report: Report; capture: Capture }
  key?: ClassKey | undefined
}

/** The bytes of a learner's `.labgrade` file, from what was kept while the lab was worked on. */
export function packSubmission({ lab, learner, cluster, moments, now, key }: HandIn): Buffer {
  const captures = new Map<string, CaptureToHandIn>()
  const steps = lab.steps.map(({ id }): Manifest['steps'][number] => {
    const moment = moments.find(({ step }) => step === id)
    const verdict = now?.report.steps.find((step) => step.id === id)?.verdict ?? (moment ? 'passed' : 'not yet')
    return moment ? { id, verdict, passedAt: moment.passedAt, capture: addCapture(captures, moment) } : { id, verdict }
  })
  const at = new Date()
  const last = now?.capture ?? moments.toSorted((a, b) => a.takenAt - b.takenAt).at(-1)?.capture
  if (now)
    captures.set('final', { id: 'final', takenAt: isoTime(now.capture.takenAt ?? at.getTime()), capture: now.capture })
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
      versions: { project: projectVersion(), node: process.version, ...facts, ...(kernel ? { kernel } : {}) },
      steps,
      ...(now ? { final: 'final' } : {}),
      answers: readAnswers(last?.objects.items ?? [], lab.number),
    },
    [...captures.values()],
    key,
  )
}

/** Adds the capture of a moment, named after the first step that passed on it; steps of one moment share theirs. */
function addCapture(captures: Map<string, CaptureToHandIn>, { step, takenAt, capture }: Moment): string {
  const content = createHash('sha256')
    .update(JSON.stringify([takenAt, capture.objects, capture.nodes.map(({ files }) => [...files])]))
    .digest('hex')
  const found = captures.get(content)
  if (found) return found.id
  captures.set(content, { id: step, takenAt: isoTime(takenAt), capture })
  return step
}

const isoTime = (milliseconds: number) => new Date(milliseconds).toISOString()

function projectVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'))
  return version
}
