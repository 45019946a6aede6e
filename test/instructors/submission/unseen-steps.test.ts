// A step that none of the captures shows costs its points: a learner who leaves an incident open
// has not solved it.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findStep, readLab } from '../../../grading/lab-definition.ts'
import { readSubmission, type Submission } from '../../../instructors/submission/read-submission.ts'
import { reportSubmission } from '../../../instructors/submission/rejudge.ts'
import { SOLVED } from './made-submission.ts'

/** A submission with the capture of one step only, as if it had been handed in then. */
function handedInAt(step: string, submission: Submission): Submission {
  const { manifest, captures } = submission
  const own = manifest.steps.find(({ id }) => id === step)
  const capture = own?.capture ?? ''
  const shown = captures.get(capture)
  if (!own || !shown) throw new Error(`The recording has no capture of step "${step}".`)
  const steps = manifest.steps.map((one) =>
    one === own ? own : { id: one.id, verdict: 'not yet' as const },
  )
  return {
    ...submission,
    captures: new Map([[capture, shown]]),
    manifest: { ...manifest, steps, final: capture },
  }
}

test.each([3, 5, 11])(
  'of lab %i: an incident that was not begun is not passed, and counts',
  async (lab) => {
    const solved = await readSubmission(join(SOLVED, `lab-${lab}-embedded.labgrade`))
    const [first] = solved.manifest.steps.filter(({ capture }) => capture)
    const report = await reportSubmission(handedInAt(first?.id ?? '', solved), 'a.labgrade')
    const incident = report.steps.find(({ id }) => id === 'incident')
    expect(incident).toMatchObject({ verdict: 'not yet', points: 0 })
    expect(incident?.reason).toContain('no capture that shows it was handed in')
    expect(incident?.maxPoints).toBe(findStep(readLab(lab), 'incident').points)
  },
)
