import { createHash, randomInt } from 'node:crypto'
import type { Incident, Need } from './incident.ts'
import { solvedMark } from './incident-note.ts'

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

/** One of them, which the seed alone decides. Throws Error when there is none. */
export function draw(incidents: readonly Incident[], seed: string): Incident {
  const drawn = incidents[dealt(incidents.length || 1, 'draw', seed)]
  if (!drawn) throw new Error('No incident can be made on this cluster.')
  return drawn
}

/** A seed by chance that draws one of those, so that naming it draws the same once more. */
export function seedFor(incidents: readonly Incident[], wanted: (incident: Incident) => boolean): string {
  const none = !incidents.some(wanted)
  for (;;) {
    const seed = String(randomInt(1_000_000))
    if (none || wanted(draw(incidents, seed))) return seed
  }
}

/** A seed by chance for an incident that was not solved yet, while there is one. */
export function freshSeed(incidents: readonly Incident[], solved: readonly string[]): string {
  return seedFor(incidents, ({ id }) => !solved.includes(solvedMark(id)))
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
