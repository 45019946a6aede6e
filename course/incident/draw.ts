import { createHash, randomInt } from 'node:crypto'
import type { Incident, Need } from './incident.ts'
import { solvedMark } from './incident-note.ts'

/** Number of causes in the list to choose from. */
const CHOICES = 8

/** A number below `below`, derived from the words only. */
function numberFrom(below: number, ...words: string[]): number {
  return createHash('sha256').update(words.join('\n')).digest().readUInt32BE() % below
}

/** The list, shuffled by the seed. */
function shuffled<T extends { id: string }>(list: readonly T[], seed: string): T[] {
  const rank = ({ id }: T) => createHash('sha256').update(`${seed}\n${id}`).digest('hex')
  return [...list].sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
}

/** The incidents that are possible on a cluster with these properties. */
export function possible(incidents: readonly Incident[], has: ReadonlySet<Need>): Incident[] {
  return incidents.filter(
    ({ mode, needs = [] }) => (mode !== 'ipvs' || has.has('ipvs')) && needs.every((need) => has.has(need)),
  )
}

/** One incident, determined by the seed. Throws Error if there is none. */
export function draw(incidents: readonly Incident[], seed: string): Incident {
  const drawn = incidents[numberFrom(incidents.length || 1, 'draw', seed)]
  if (!drawn) throw new Error('No incident can run on this cluster.')
  return drawn
}

/** A random seed that selects one of these incidents; the same seed always selects the same incident. */
export function seedFor(incidents: readonly Incident[], wanted: (incident: Incident) => boolean): string {
  const none = !incidents.some(wanted)
  for (;;) {
    const seed = String(randomInt(1_000_000))
    if (none || wanted(draw(incidents, seed))) return seed
  }
}

/** A random seed for an incident that has not been solved yet, if there is one. */
export function freshSeed(incidents: readonly Incident[], solved: readonly string[]): string {
  return seedFor(incidents, ({ id }) => !solved.includes(solvedMark(id)))
}

/** Plausible causes with the right one among them, in an order that does not reveal it. */
export function choicesFor(incident: Incident, incidents: readonly Incident[], seed: string): Incident[] {
  const others = shuffled(
    incidents.filter(({ id }) => id !== incident.id),
    seed,
  )
  const chosen = [incident, ...others.slice(0, CHOICES - 1)]
  return chosen.sort((a, b) => (a.id < b.id ? -1 : 1))
}
