import { createHash } from 'node:crypto'
import type { Incident, Need } from '../../checks/08-incidents/incident.ts'
import { solvedMark } from '../../checks/08-incidents/incident-note.ts'

/** So many causes stand in the list to choose from. */
const CHOICES = 8

/** A number below `below` that the words alone decide. */
function dealt(below: number, ...words: string[]): number {
  return createHash('sha256').update(words.join('\n')).digest().readUInt32BE() % below
}

/** The list in an order that the seed decides. */
function shuffled<T extends { id: string }>(list: readonly T[], seed: string): T[] {
  const rank = ({ id }: T) => createHash('sha256').update(`${seed}\n${id}`).digest('hex')
  return [...list].sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
}

/** What can be made on a cluster that has these things. */
export function possible(incidents: readonly Incident[], has: ReadonlySet<Need>): Incident[] {
  return incidents.filter(
    ({ mode, needs = [] }) => (mode !== 'ipvs' || has.has('ipvs')) && needs.every((need) => has.has(need)),
  )
}

/** One of them by the seed, not one that was solved while there are others. Throws Error when there is none. */
export function draw(incidents: readonly Incident[], seed: string, solved: readonly string[]): Incident {
  const fresh = incidents.filter(({ id }) => !solved.includes(solvedMark(id)))
  const pot = fresh.length > 0 ? fresh : incidents
  const drawn = pot[dealt(pot.length, 'draw', seed)]
  if (!drawn) throw new Error('No incident can be made on this cluster.')
  return drawn
}

/** Plausible causes, the right one among them, in an order that tells nothing. */
export function choicesFor(incident: Incident, incidents: readonly Incident[], seed: string): Incident[] {
  const others = shuffled(
    incidents.filter(({ id }) => id !== incident.id),
    seed,
  )
  const chosen = [incident, ...others.slice(0, CHOICES - 1)]
  return chosen.sort((a, b) => (a.id < b.id ? -1 : 1))
}
