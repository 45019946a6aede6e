import { chalk } from 'zx/core'
import type { Incident } from './incident.ts'
import { COST, DIAGNOSIS, type IncidentNote } from './incident-note.ts'

const wrapped = (text: string, width = 100) =>
  text.replace(new RegExp(`(.{1,${width}})(?: +|\\n|$)`, 'g'), (_all, line: string) => `  ${line}\n`).trimEnd()

/** The user's report, the possible causes, and the next commands. */
export function describeIncident(
  { report, choices, seed, hints }: IncidentNote,
  incidents: readonly Incident[],
): string {
  const listed = choices.flatMap((id) => incidents.find((incident) => incident.id === id) ?? [])
  const width = Math.max(...choices.map((id) => id.length))
  return [
    chalk.bold('A user reports:'),
    '',
    wrapped(report),
    '',
    chalk.bold('Possible causes:'),
    '',
    ...listed.map(({ id, cause }) => `  ${id.padEnd(width)}  ${cause}`),
    '',
    `Name the cause: make answer Q=${DIAGNOSIS} A=…    Check your repair: make check-8`,
    chalk.dim(
      `Hints: make incident HINT=1 (each costs ${COST} points of the diagnosis; ${hints} so far). Start the same incident again: make incident SEED=${seed}.`,
    ),
  ].join('\n')
}

/** For instructors: all incidents and their causes. */
export function listIncidents(incidents: readonly Incident[], here: readonly Incident[]): string {
  const width = Math.max(...incidents.map(({ id }) => id.length))
  const lines = incidents.map((incident) => {
    const { id, mode, from, cause, needs = [] } = incident
    const modes = from === undefined || from === mode ? mode : `${from} → ${mode}`
    const lack = here.includes(incident)
      ? ''
      : chalk.dim(
          `  (not on this cluster: needs ${[...new Set([...(mode === 'ipvs' ? ['ipvs'] : []), ...needs])].join(', ')})`,
        )
    return `  ${id.padEnd(width)}  ${modes.padEnd(15)}  ${cause}${lack}`
  })
  return [
    ...lines,
    '',
    `${incidents.length} incidents. Start one by its id: make incident INCIDENT=id; by a seed: make incident SEED=7.`,
  ].join('\n')
}
