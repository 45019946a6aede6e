import type { LabBench } from '../lab-bench.ts'
import type { SolutionStep } from '../solution-step.ts'
import { INCIDENT_STEP, incidentCommand } from './incident-note.ts'
import { openNext } from './open.ts'
import { incidentNotes, openIncident } from './revert-incident.ts'

/** The same incident each time a reference solution is played, unless SEED= chooses another one. */
const SEED = 'solution'

/**
 * The word for the step `incident` of a lab: starts one unless one is open, predicts, repairs, and
 * names the cause.
 */
export const solveIncident = (lab: number): SolutionStep => ({
  commands: [incidentCommand(lab)],
  unguided: true,
  play: async (bench) => {
    const { incident, environment } = await opened(bench, lab)
    console.log(`  A user reports: ${incident.report(environment)}`)
    await bench.predict(lab, INCIDENT_STEP, incident.stops ?? 'pod')
    const { commands, play } = incident.fix(environment)
    for (const command of commands) console.log(`  $ ${command}`)
    await play?.(bench)
    console.log(`  $ make answer LAB=${lab} Q=${INCIDENT_STEP} A=${incident.id}`)
    await bench.answer(lab, INCIDENT_STEP, incident.id)
  },
})

async function opened(bench: LabBench, lab: number) {
  if (!(await openIncident(await incidentNotes(bench, lab))))
    await openNext(bench, { seed: process.env.SEED || SEED, lab })
  const found = await openIncident(await incidentNotes(bench, lab))
  if (!found)
    throw new Error(`The note of the incident can no longer be read: run \`make reset-${lab}\`.`)
  return { incident: found.incident, environment: found.secret.environment }
}
