// The push about the open incident: the report, the choices, the hints taken, and the debrief after the repair.

import { loadIncidents } from '../../course/incident/incident.ts'
import { CLOSED_KEY, closedNote, INCIDENT_KEY, incidentNote, unseal } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { type Change, changesBetween } from '../../dataplane/view/changes.ts'
import type { NodeHoldings } from '../../dataplane/view/holdings.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import type { IncidentPush } from '../protocol.ts'
import { blocksOf } from './lab-blocks.ts'

type Nodes = readonly NodeHoldings[]

/** The state of the nodes before the fault, with it, and repaired, if this server has read it. */
interface Stages {
  openedAt: string
  healthy?: Nodes | undefined
  broken?: Nodes
  repaired?: Nodes
}

export class IncidentView {
  #stages: Stages = { openedAt: '' }
  #healthy: Nodes | undefined

  /** Stores the state of the nodes before an incident starts. */
  healthy(nodes: Nodes): void {
    this.#healthy = nodes
  }

  /** Adds the current state of the nodes and returns the push. */
  async see(snapshot: Snapshot, nodes: Nodes): Promise<IncidentPush> {
    const notes = new LabNotes(INCIDENT_LAB, snapshot)
    const note = notes.read(INCIDENT_KEY, incidentNote)
    if (!note) return { type: 'incident' }
    const incidents = await loadIncidents()
    const incident = incidents.find(({ id }) => id === unseal(note.sealed)?.id)
    const isClosed = notes.read(CLOSED_KEY, closedNote) !== undefined
    if (this.#stages.openedAt !== note.openedAt) {
      this.#stages = { openedAt: note.openedAt, healthy: this.#healthy }
      this.#healthy = undefined
    }
    if (!isClosed) this.#stages.broken ??= nodes
    else this.#stages.repaired ??= nodes
    const { healthy, broken, repaired } = this.#stages
    return {
      type: 'incident',
      incident: {
        report: note.report,
        choices: note.choices.map((id) => ({ id, cause: incidents.find((one) => one.id === id)?.cause ?? '' })),
        hints: (incident?.hints ?? []).slice(0, note.hints),
        hintsLeft: Math.max(0, (incident?.hints.length ?? 0) - note.hints),
        seed: note.seed,
        ...(isClosed && incident
          ? {
              debrief: {
                before: changesOf(healthy, broken),
                repaired: changesOf(broken, repaired),
                text: blocksOf(incident.debrief),
              },
            }
          : {}),
      },
    }
  }
}

function changesOf(before: Nodes = [], after: Nodes = []): Change[] {
  return after.flatMap((now) => {
    const was = before.find(({ node }) => node === now.node)
    return was ? changesBetween(was, now) : []
  })
}
