import { createHash, randomInt } from 'node:crypto'
import { chalk } from 'zx/core'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { Refusal } from '../../host/main.ts'
import { typedWord } from '../../host/shell-word.ts'
import { wrapLines } from '../../host/wrap-lines.ts'
import type { LabBench } from '../lab-bench.ts'
import type { SolutionStep } from '../solution-step.ts'
import type { IncidentContext, Symptom } from './incident-context.ts'
import {
  askingStep,
  COST,
  INCIDENT_STEP,
  type IncidentNote,
  incidentCommand,
} from './incident-note.ts'
import { FACTS_ASKED } from './key-facts.ts'
import { INCIDENT_LAB, type IncidentEnvironment } from './shop.ts'

/** A requirement of an incident on the cluster. */
export type Need =
  /** A kernel with IPVS and ipset, although iptables mode runs. */
  | 'ipvs'
  | 'outside'
  /** Workers in more than one zone, and a version with spec.trafficDistribution. */
  | 'zones'
  /** A kube-proxy of iptables mode that does not write all rules at each syncPeriod. */
  | 'partial-syncs'
  /** A kube-proxy that knows spec.internalTrafficPolicy. */
  | 'internal-policy'
  /** Nodes with a kernel of their own, whose modules can be unloaded. */
  | 'embedded'

/** Where the packet of the report stops. */
export type PacketFate =
  /** A rule of a node rejects it. */
  | 'rejected'
  /** A rule of a node drops it. */
  | 'dropped'
  /** Nothing translates it, and it leaves for an address that no machine has. */
  | 'untranslated'
  /** IPVS takes it, and has no real server for it. */
  | 'ipvs'
  /** Nothing translates it, and the node itself refuses it. */
  | 'node'
  /** It reaches a Pod. */
  | 'pod'
  /** It reaches a Pod, and the reply does not come back to the client. */
  | 'reply'

/** One incident: its fault, its detection and its repair. */
export interface Incident {
  /** Also the cause id in a diagnosis. */
  id: string
  /** The cause in one sentence, as shown in the list of plausible causes. */
  cause: string
  /** The mode that the incident ends in. */
  mode: SwitchedMode
  /** The mode in which it begins, if a switch of the mode is part of it. */
  from?: SwitchedMode
  needs?: readonly Need[]
  /** Where its packet stops; missing where none does, or where that is not the question. */
  stops?: PacketFate
  /**
   * What this cause would show, in one or two sentences: the reply to a learner who names it in
   * vain.
   */
  sign: string
  /** The user's report. Never names the cause. */
  report(environment: IncidentEnvironment): string
  /** Hints, from general to nearly the command. */
  hints: readonly [string, string, ...string[]]
  /** Breaks the cluster. Stores facts that later steps need in `environment.facts`. */
  break(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
  /** Sends real requests; undefined if there is no symptom. */
  symptom(context: IncidentContext): Promise<Symptom | undefined>
  /** Returns the remaining part of the cause; undefined if it is repaired. */
  causeLeft(context: IncidentContext): Promise<string | undefined> | string | undefined
  fix(environment: IncidentEnvironment): SolutionStep
  /**
   * Removes changes that neither kube-proxy nor a new deployShop would remove; can be called at any
   * time.
   */
  revert?(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
  debrief: string
}

/** Loads every incident. They are content of lab 8, loaded on demand like the labs' solutions. */
export async function loadIncidents(folder = '08-incidents'): Promise<readonly Incident[]> {
  const module: { incidents: readonly Incident[] } = await import(
    `../../labs/${folder}/incidents/all.ts`
  )
  return module.incidents
}

/**
 * The incidents that are a step of a lab: those that are drawn, and the causes among which the
 * learner chooses.
 */
export interface LabIncidents {
  draws: readonly Incident[]
  choices: readonly Incident[]
}

/** The incidents of a lab other than lab 8. Throws Refusal with the labs that have some. */
export async function incidentsOfLab(lab: number, folder = '08-incidents'): Promise<LabIncidents> {
  const module: { incidentsByLab: ReadonlyMap<number, LabIncidents> } = await import(
    `../../labs/${folder}/incidents/by-lab.ts`
  )
  const found = module.incidentsByLab.get(lab)
  if (found) return found
  const labs = [...module.incidentsByLab.keys()].join(', ')
  throw new Refusal(
    `Lab ${lab} has no incidents of its own, labs ${labs} have: \`make incident\` starts one of all.`,
  )
}

const CHOICES = 8

const digestOf = (...parts: string[]): Buffer =>
  createHash('sha256').update(parts.join('\n')).digest()

/** The incidents that are possible on a cluster with these properties. */
export function possible(incidents: readonly Incident[], has: ReadonlySet<Need>): Incident[] {
  return incidents.filter(
    ({ mode, needs = [] }) =>
      (mode !== 'ipvs' || has.has('ipvs')) && needs.every((need) => has.has(need)),
  )
}

/** One incident, determined by the seed. Throws Refusal if there is none. */
export function draw(incidents: readonly Incident[], seed: string): Incident {
  const drawn = incidents[digestOf('draw', seed).readUInt32BE() % (incidents.length || 1)]
  if (!drawn)
    throw new Refusal(
      'None of these incidents can run on this cluster: `make incident LIST=1` lists the requirements.',
    )
  return drawn
}

/**
 * A random seed that selects one of these incidents; the same seed always selects the same
 * incident.
 */
export function seedFor(
  incidents: readonly Incident[],
  wanted: (incident: Incident) => boolean,
): string {
  const none = !incidents.some(wanted)
  for (;;) {
    const seed = String(randomInt(1_000_000))
    if (none || wanted(draw(incidents, seed))) return seed
  }
}

/** Plausible causes with the right one among them, in an order that does not reveal it. */
export function choicesFor(
  incident: Incident,
  incidents: readonly Incident[],
  seed: string,
): Incident[] {
  const others = incidents.filter(({ id }) => id !== incident.id)
  const shuffled = others.sort((a, b) => Buffer.compare(digestOf(seed, a.id), digestOf(seed, b.id)))
  return [incident, ...shuffled.slice(0, CHOICES - 1)].sort((a, b) => (a.id < b.id ? -1 : 1))
}

const WIDTH = 100

/** A text beside its label, as lines. */
const beside = (label: string, text: string, columns: number): string[] =>
  wrapLines(text, Math.min(columns, WIDTH), label)

/**
 * How an incident is described: the lab whose step it is, what is predicted first, and how the same
 * one is started again.
 */
interface Description {
  columns?: number | undefined
  lab?: number
  prediction?: { ask: string; choices?: readonly string[] | undefined } | undefined
  again?: string
}

/**
 * The user's report, the possible causes unless the learner is to name one in a sentence, and the
 * next commands, for the incident of a lab.
 */
export function describeIncident(
  { report, choices, hard, seed, hints }: IncidentNote,
  incidents: readonly Incident[],
  { columns = WIDTH, lab = INCIDENT_LAB, prediction, again }: Description = {},
): string {
  const isExam = lab === INCIDENT_LAB
  const price = isExam
    ? `each costs ${COST} points of the diagnosis`
    : 'they cost nothing in this lab'
  const seeded = `${incidentCommand(lab)} SEED=${typedWord(seed)}${hard ? ' HARD=1' : ''}`
  const next = again ?? `Start the same incident again: ${seeded}.`
  const help = `Hints: ${incidentCommand(lab, 'HINT=1')} (${price}; ${hints} so far). ${next}`
  const question = `${isExam ? '' : `LAB=${lab} `}Q=${askingStep(lab)}`
  const check = isExam ? 'make check-8' : `make check-${lab} STEP=${INCIDENT_STEP}`
  const answer = `make answer ${question} A=${hard ? "'…'" : '…'}`
  const named = prediction ? `Then name the cause: ${answer}` : `Name the cause: ${answer}`
  const predicted = prediction && [
    `Predict first: ${prediction.ask} ${answer}`,
    ...(prediction.choices ? [`(${prediction.choices.join(', ')})`] : []),
  ]
  return [
    chalk.bold('A user reports:'),
    '',
    ...beside('  ', report, columns),
    '',
    ...(hard ? beside('', FACTS_ASKED, columns) : listCauses(choices, incidents, columns)),
    '',
    ...(predicted ? beside('', predicted.join(' '), columns) : []),
    ...beside('', named, columns),
    ...beside('', `Check your repair: ${check}`, columns),
    ...beside('', help, columns).map((line) => chalk.dim(line)),
  ].join('\n')
}

function listCauses(
  choices: readonly string[],
  incidents: readonly Incident[],
  columns: number,
): string[] {
  const listed = choices.flatMap((id) => incidents.find((incident) => incident.id === id) ?? [])
  const width = Math.max(...choices.map((id) => id.length))
  return [
    chalk.bold('Possible causes:'),
    '',
    ...listed.flatMap(({ id, cause }) => beside(`  ${id.padEnd(width)}  `, cause, columns)),
  ]
}

/** For instructors: all incidents, their causes, modes and requirements. */
export function listIncidents(incidents: readonly Incident[], columns = WIDTH): string {
  const width = Math.max(...incidents.map(({ id }) => id.length))
  const lines = incidents.flatMap(({ id, mode, from, cause, needs = [] }) => {
    const modes = from === undefined || from === mode ? mode : `${from} → ${mode}`
    const about = needs.length > 0 ? `${modes}; needs ${needs.join(', ')}` : modes
    return beside(`  ${id.padEnd(width)}  `, `${cause} (${about})`, columns)
  })
  const next = 'Start one by its id: make incident INCIDENT=id; by a seed: make incident SEED=7.'
  return [...lines, '', ...beside('', `${incidents.length} incidents. ${next}`, columns)].join('\n')
}
