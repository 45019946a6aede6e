// Starts an incident and prints the user's report: [SEED=7] [INCIDENT=id] incident.ts; SHOW=1, HINT=1 and LIST=1 only print.

import { notUp } from '../cluster/driver.ts'
import { selectCluster } from '../cluster/select.ts'
import { INCIDENT_KEY, unseal } from '../course/incident/incident-note.ts'
import { describeIncident, listIncidents } from '../course/incident/incident-text.ts'
import { currentNote, incidentsHere, openNext } from '../course/incident/open.ts'
import { INCIDENT_LAB } from '../course/incident/shop.ts'
import { LabBench } from '../course/lab-bench.ts'
import { writeNotes } from '../grading/lab-notes.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { incidents } from '../labs/08-incidents/incidents/all.ts'

await main(async () => {
  const { SEED, INCIDENT, LIST, SHOW, HINT } = process.env
  const cluster = await selectCluster()
  const running = await cluster.running()
  if (LIST) {
    // The probe loads kernel modules, which a list does not justify on a cluster of the user's kubeconfig.
    const probed = running && cluster.driver !== 'context'
    const here = probed ? await incidentsHere(await LabBench.open(cluster, createProgress())) : incidents
    console.log(listIncidents(incidents, here))
    return
  }
  if (!running) throw notUp(cluster)
  const purpose = SHOW
    ? undefined
    : HINT
      ? 'note that a hint was taken'
      : 'start an incident and repair the previous one'
  const bench = await LabBench.open(cluster, createProgress(), purpose)
  if (SHOW || HINT) {
    const note = await currentNote(bench)
    if (!note) throw new UserError('No incident is open: `make incident` starts one.')
    if (HINT) await hint(bench, note)
    else console.log(describeIncident(note, incidents))
    return
  }
  const note = await openNext(bench, { seed: SEED || undefined, id: INCIDENT || undefined })
  console.log(`\n${describeIncident(note, incidents)}`)
})

/** The next tier of hints of the open incident, which is recorded for the score; the last one again after all. */
async function hint({ client }: LabBench, note: NonNullable<Awaited<ReturnType<typeof currentNote>>>): Promise<void> {
  const { hints } = incidents.find(({ id }) => id === unseal(note.sealed)?.id) ?? { hints: [] }
  const tier = Math.min(note.hints + 1, hints.length)
  await writeNotes(client, INCIDENT_LAB, { [INCIDENT_KEY]: JSON.stringify({ ...note, hints: tier }) })
  console.log(`Hint ${tier} of ${hints.length}: ${hints[tier - 1]}`)
  if (tier < hints.length) console.log('Need more? Run the command again; each hint costs 15 points of 100.')
}
