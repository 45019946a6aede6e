// Starts an incident and prints the user's report: [SEED=7] [INCIDENT=id] [HARD=1] incident.ts; SHOW=1, HINT=1 and LIST=1 only print.

import { runningCluster } from '../cluster/select.ts'
import { describeIncident, listIncidents } from '../course/incident/incident.ts'
import { COST } from '../course/incident/incident-note.ts'
import { currentNote, openNext, takeHint } from '../course/incident/open.ts'
import { LabBench } from '../course/lab-bench.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { incidents } from '../labs/08-incidents/incidents/all.ts'

await main(async () => {
  const { SEED, INCIDENT, HARD, LIST, SHOW, HINT } = process.env
  const { columns } = process.stdout
  if (LIST) return console.log(listIncidents(incidents, columns))
  const cluster = await runningCluster()
  const purpose = SHOW
    ? undefined
    : HINT
      ? 'note that a hint was taken'
      : 'start an incident and repair the previous one'
  const bench = await LabBench.open(cluster, createProgress(), purpose)
  if (HINT) {
    const { tier, of, text } = await takeHint(bench)
    console.log(`Hint ${tier} of ${of}: ${text}`)
    if (tier < of)
      console.log(
        `Need more? Run the command again; each hint costs ${COST} points of the diagnosis.`,
      )
    return
  }
  if (SHOW) {
    const note = await currentNote(bench)
    if (!note) throw new UserError('No incident is open: `make incident` starts one.')
    console.log(describeIncident(note, incidents, columns))
    return
  }
  const wish = { seed: SEED || undefined, id: INCIDENT || undefined, hard: Boolean(HARD) }
  const note = await openNext(bench, wish)
  console.log(`\n${describeIncident(note, incidents, columns)}`)
})
