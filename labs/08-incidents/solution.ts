// The reference solution of lab 8, for any open incident, played by `make solve-8` and, without a terminal, by `make lab-8`.

import { DIAGNOSIS, unseal } from '../../course/incident/incident-note.ts'
import { currentNote, openNext } from '../../course/incident/open.ts'
import { closeShop, leaveIncident, revertIncident } from '../../course/incident/revert-incident.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { readsOnly } from '../../course/typed-commands.ts'
import { incidents } from './incidents/all.ts'

/** The incident in the lab's text, the default. */
const EXAMPLE = 'selector-typo'

/** The open incident, or the one selected by SEED or INCIDENT. */
async function opened(bench: LabBench) {
  const { SEED: seed, INCIDENT: id } = process.env
  const wish = seed ? { seed } : { seed: EXAMPLE, id: id || EXAMPLE }
  const note = (await currentNote(bench)) ?? (await openNext(bench, wish)).note
  const secret = unseal(note.sealed)
  const incident = incidents.find((one) => one.id === secret?.id)
  if (!secret || !incident) throw new Error('The note of the incident can no longer be read: run `make reset-8`.')
  return { incident, environment: secret.environment }
}

const printCommand = (command: string) => console.log(`  $ ${command}`)

export const solution: LabSolution = {
  steps: {
    [DIAGNOSIS]: {
      commands: [],
      play: async (bench) => {
        const { incident, environment } = await opened(bench)
        console.log(`  A user reports: ${incident.report(environment)}`)
        printCommand(`make answer Q=${DIAGNOSIS} A=${incident.id}`)
        await bench.answer(INCIDENT_LAB, DIAGNOSIS, incident.id)
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

  leave: leaveIncident,

  async reset(bench) {
    await revertIncident(bench)
    await closeShop(bench)
    await bench.startIn('iptables')
  },
}
