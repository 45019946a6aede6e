// The reference solution of lab 8, whatever incident is open, played by `make solve-8` and, without a terminal, by `make lab-8`.

import { DIAGNOSIS } from '../../checks/08-incidents/diagnosis.ts'
import { unseal } from '../../checks/08-incidents/incident-note.ts'
import { INCIDENT_LAB } from '../../checks/08-incidents/stage.ts'
import { Hands } from '../../scripts/incident/hands.ts'
import { closeShop, healIncident } from '../../scripts/incident/heal.ts'
import { currentNote, openNext } from '../../scripts/incident/open.ts'
import type { LabBench, LabSolution } from '../../scripts/lab-bench.ts'
import { incidents } from './incidents/all.ts'

/** The incident that is open; drawn by the seed when none is. */
async function opened(bench: LabBench) {
  const note = (await currentNote(bench)) ?? (await openNext(bench, { seed: process.env.SEED || '8' }))
  const secret = unseal(note.sealed)
  const incident = incidents.find(({ id }) => id === secret?.id)
  if (!secret || !incident) throw new Error('The note of the incident can no longer be read: run `make reset-8`.')
  return { incident, hands: new Hands(bench, secret.scene) }
}

const look = { commands: [] }

export const solution: LabSolution = {
  steps: {
    [DIAGNOSIS]: {
      commands: ['make incident', 'make answer Q=diagnosis A=…'],
      play: async (bench) => {
        const { incident, hands } = await opened(bench)
        bench.progress.note(incident.report(hands.scene))
        await bench.answer(INCIDENT_LAB, DIAGNOSIS, incident.id)
      },
    },
    report: {
      commands: [],
      play: async (bench) => {
        const { incident, hands } = await opened(bench)
        for (const command of incident.fix.commands(hands.scene)) console.log(`  $ ${command}`)
        await incident.fix.play(hands)
      },
    },
    cause: look,
    rules: look,
    whole: look,
  },

  async reset(bench) {
    await healIncident(bench)
    await closeShop(bench)
    await bench.startIn('iptables')
  },
}
