// The reference solution of lab 8, for any open incident, played by `make solve-8` and, without a
// terminal, by `make lab-8`.

import { DIAGNOSIS } from '../../course/incident/incident-note.ts'
import { currentNote, openNext } from '../../course/incident/open.ts'
import { incidentNotes, openIncident, removeShop } from '../../course/incident/revert-incident.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { readsOnly } from '../../course/typed-commands.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { shellWord } from '../../host/shell-word.ts'
import { keyFacts } from './incidents/key-facts.ts'

/** The incident in the lab's text, the default. */
const EXAMPLE = 'selector-typo'

/** The open incident, or the one selected by SEED or INCIDENT. */
async function opened(bench: LabBench) {
  const { SEED: seed, INCIDENT: id } = process.env
  if (!(await currentNote(bench)))
    await openNext(bench, seed ? { seed } : { seed: EXAMPLE, id: id || EXAMPLE })
  const found = await openIncident(await incidentNotes(bench))
  if (!found) throw new Error('The note of the incident can no longer be read: run `make reset-8`.')
  const { incident, note } = found
  const { environment } = found.secret
  // In hard mode the cause is named in a sentence.
  const cause = note.hard ? keyFacts[incident.id]?.example(environment) : incident.id
  return { incident, environment, cause: cause ?? incident.id }
}

const isSentence = (cause: string) => cause.includes(' ')
const printCommand = (command: string) => console.log(`  $ ${command}`)

export const solution: LabSolution = {
  steps: {
    [DIAGNOSIS]: {
      commands: [],
      play: async (bench) => {
        const { incident, environment, cause } = await opened(bench)
        console.log(`  A user reports: ${incident.report(environment)}`)
        printCommand(`make answer Q=${DIAGNOSIS} A=${isSentence(cause) ? shellWord(cause) : cause}`)
        await bench.answer(INCIDENT_LAB, DIAGNOSIS, cause)
      },
    },
    report: {
      commands: [],
      play: async (bench) => {
        const { incident, environment } = await opened(bench)
        const { commands, play } = incident.fix(environment)
        for (const command of commands) printCommand(command)
        await play?.(bench)
      },
    },
    cause: readsOnly,
    rules: readsOnly,
    whole: readsOnly,
  },

  async reset(bench) {
    await Promise.all([removeShop(bench), bench.delete('ConfigMap', notesName(INCIDENT_LAB))])
    await bench.startIn('iptables')
  },
}
