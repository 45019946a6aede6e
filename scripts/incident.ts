// Starts an incident and prints the user's report: [SEED=7] [INCIDENT=id] [LAB=3] [HARD=1]
// incident.ts; SHOW=1, HINT=1 and LIST=1 only print. Without LAB= it is one of lab 8.

import { runningCluster } from '../cluster/select.ts'
import { describeIncident, listIncidents } from '../course/incident/incident.ts'
import {
  askingStep,
  COST,
  type IncidentNote,
  incidentCommand,
} from '../course/incident/incident-note.ts'
import { latestIncident, openNext, takeHint } from '../course/incident/open.ts'
import { INCIDENT_LAB } from '../course/incident/shop.ts'
import { LabBench } from '../course/lab-bench.ts'
import { findStep, labNumber, readLab } from '../grading/lab-definition.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { isOn } from '../host/switches.ts'
import { incidents } from '../labs/08-incidents/incidents/all.ts'

await main(async () => {
  const { LAB } = process.env
  const [isHard, isShown, isHint] = [isOn('HARD'), isOn('SHOW'), isOn('HINT')]
  const lab = LAB ? labNumber(LAB) : undefined
  if (isOn('LIST')) return console.log(listIncidents(incidents, process.stdout.columns))
  const cluster = await runningCluster()
  const change = isHint
    ? 'note that a hint was taken'
    : 'start an incident and repair the previous one'
  const purpose = isShown && !isHint ? undefined : change
  const bench = await LabBench.open(cluster, createProgress(), purpose)
  if (isHint) return printHint(bench, lab)
  if (isShown) return printLatest(bench, lab)
  return startIncident(bench, lab, isHard)
})

async function printHint(bench: LabBench, lab: number | undefined): Promise<void> {
  const { tier, of, text, lab: ofLab } = await takeHint(bench, lab)
  console.log(`Hint ${tier} of ${of}: ${text}`)
  const price = ofLab === INCIDENT_LAB ? `; each hint costs ${COST} points of the diagnosis` : ''
  if (tier < of) console.log(`Need more? Run the command again${price}.`)
}

async function printLatest(bench: LabBench, lab: number | undefined): Promise<void> {
  const open = await latestIncident(bench, lab)
  if (!open)
    throw new Refusal(
      `No incident is open: \`${incidentCommand(lab ?? INCIDENT_LAB)}\` starts one.`,
    )
  printIncident(open.note, open.lab)
}

async function startIncident(
  bench: LabBench,
  lab: number | undefined,
  isHard: boolean,
): Promise<void> {
  const { SEED, INCIDENT } = process.env
  if (isHard && lab !== undefined && lab !== INCIDENT_LAB)
    throw new Refusal(
      `HARD=1 is for incidents of lab ${INCIDENT_LAB}: lab ${lab} lists the causes that it teaches.`,
    )
  const request = { seed: SEED || undefined, id: INCIDENT || undefined, lab, hard: isHard }
  const note = await openNext(bench, request)
  console.log('')
  printIncident(note, lab ?? INCIDENT_LAB)
}

function printIncident(note: IncidentNote, lab: number): void {
  const { predict: prediction } = findStep(readLab(lab), askingStep(lab))
  const { columns } = process.stdout
  console.log(describeIncident(note, incidents, { columns, lab, prediction }))
}
