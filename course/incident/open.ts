import * as z from 'zod'
import { changeCluster } from '../../cluster/cluster-lock.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import { listKubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { modeLacks } from '../../cluster/kube-proxy/module-check.ts'
import { takeCapture, takeObjects } from '../../cluster/snapshot.ts'
import { type Features, featuresOf, newestBefore } from '../../dataplane/kube-proxy/versions.ts'
import { ATTEMPT_KEY, type AttemptNote } from '../../grading/attempt.ts'
import { forgetNotes, writeNotes } from '../../grading/lab-notes.ts'
import { LiveCluster } from '../../grading/live-cluster.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { Refusal } from '../../host/main.ts'
import { withProgress } from '../../host/progress.ts'
import { waitFor } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import { leaveOthers } from '../lab-solution.ts'
import { baselineFingerprint, baselineOf } from './baseline.ts'
import {
  choicesFor,
  draw,
  type Incident,
  incidentsOfLab,
  loadIncidents,
  type Need,
  possible,
  seedFor,
} from './incident.ts'
import { IncidentContext } from './incident-context.ts'
import {
  belongsToIncident,
  CLOSED_KEY,
  closedNote,
  HISTORY_KEY,
  INCIDENT_KEY,
  type IncidentNote,
  incidentCommand,
  incidentSteps,
  seal,
  solvedMark,
} from './incident-note.ts'
import { laterSync } from './later-sync.ts'
import {
  incidentNotes,
  incidentsIn,
  leaveIncidents,
  type NotedIncident,
  openIncident,
  revertIncident,
} from './revert-incident.ts'
import { deployShop, INCIDENT_LAB, type IncidentEnvironment } from './shop.ts'

const SYMPTOM_MS = 30_000
/** Attempts if kube-proxy repairs the incident by itself. */
const TRIES = 3

interface IncidentRequest {
  /** Determines the incident that is drawn; random if missing. */
  seed?: string | undefined
  /** The id of the incident itself, for instructors. */
  id?: string | undefined
  /** The lab whose step it is; default: lab 8, with every incident. */
  lab?: number | undefined
  /** No causes are listed: the learner names the cause in a sentence. */
  hard?: boolean | undefined
}

/**
 * Is given each stored note of an incident, also if its symptom does not appear then, and the
 * cluster before the fault.
 */
type OnNote = (note: IncidentNote, healthy: Snapshot) => void

/**
 * Reverts an earlier incident, draws another one, applies it, waits until its symptom appears, and
 * verifies that it remains after pending syncs of kube-proxy. Resolves to its note, whose seed
 * draws the same incident again.
 * @throws Refusal for an unknown id, for an incident that can't run here, or if kube-proxy repairs
 * it each time; DeadlineError if no symptom appears
 */
export function openNext(
  bench: LabBench,
  request: IncidentRequest,
  onNote?: OnNote,
): Promise<IncidentNote> {
  return changeCluster(bench.cluster, 'starts an incident on', bench.progress, () =>
    openAlone(bench, request, onNote),
  )
}

async function openAlone(
  bench: LabBench,
  request: IncidentRequest,
  onNote?: OnNote,
): Promise<IncidentNote> {
  const { client, progress } = bench
  const { lab = INCIDENT_LAB } = request
  const all = await loadIncidents()
  if (request.id !== undefined && !all.some(({ id }) => id === request.id))
    throw new Refusal(`There is no incident "${request.id}": \`make incident LIST=1\` lists them.`)
  const own = lab === INCIDENT_LAB ? undefined : await incidentsOfLab(lab)
  if (own && request.id !== undefined && !own.draws.some(({ id }) => id === request.id))
    throw new Refusal(
      `The incident "${request.id}" is not one of lab ${lab}, which has ${own.draws.map(({ id }) => id).join(', ')}: \`make incident INCIDENT=${request.id}\` starts it in lab 8.`,
    )
  const solved = await solvedSoFar(bench, lab)
  // Chosen first: what can't run here ends no open incident and no other lab.
  const has = await environmentFeatures(bench)
  const { incident, seed } = choose(possible(own?.draws ?? all, has), request, solved)
  const revert = async () => {
    await revertIncident(bench, lab)
    // An answer that was given before an incident began is none to this one.
    await forgetNotes(client, lab, (key) => belongsToIncident(lab, key))
    // The notes of an incident are deleted with it.
    if (solved.length > 0) await writeNotes(client, lab, { [HISTORY_KEY]: JSON.stringify(solved) })
  }
  // An open incident may have broken parts that the next one needs.
  await leaveIncidents(bench, lab)
  await revert()
  // An incident of another lab is a step of that lab, whose other work stays.
  if (!own) await leaveOthers(lab, bench)
  const listed = request.hard ? [] : choicesFor(incident, possible(own?.choices ?? all, has), seed)
  const draft = {
    lab,
    choices: listed.map(({ id }) => id),
    seed,
    ...(request.hard && { hard: true }),
    ...(request.id !== undefined && { isNamed: true }),
  }
  for (let tries = 1; tries <= TRIES; tries++) {
    const environment = await deployShop(bench, incident.from ?? incident.mode, {
      keepsMode: own !== undefined,
    })
    const note = await withProgress(progress, 'Starting an incident', () =>
      breakIt(bench, incident, environment, draft, onNote),
    )
    if (note) return note
    progress.note('kube-proxy has repaired it by itself.')
    await revert()
  }
  throw new Refusal(
    `kube-proxy has repaired the incident "${incident.id}" by itself ${TRIES} times, so there is nothing to diagnose: \`make incident\` starts another one.`,
  )
}

/**
 * Applies the incident and stores its note; undefined if it was repaired by the next sync of every
 * kube-proxy.
 */
async function breakIt(
  bench: LabBench,
  incident: Incident,
  environment: IncidentEnvironment,
  { lab, ...draft }: Pick<IncidentNote, 'choices' | 'seed' | 'hard'> & { lab: number },
  onNote?: OnNote,
): Promise<IncidentNote | undefined> {
  const attempt: AttemptNote = { id: new Date().toISOString(), steps: incidentSteps(lab) }
  const { cluster, client } = bench
  const healthy = new Snapshot(await takeCapture(cluster, client))
  const baseline = baselineOf(healthy)
  const keep = async (fingerprint?: string): Promise<IncidentNote> => {
    const sealed = seal({ id: incident.id, environment, baseline })
    const report = incident.report(environment)
    const openedAt = new Date().toISOString()
    const note = {
      ...draft,
      hints: 0,
      report,
      sealed,
      openedAt,
      ...(fingerprint && { fingerprint }),
    }
    const notes = { [INCIDENT_KEY]: note, [ATTEMPT_KEY]: attempt }
    await writeNotes(
      client,
      lab,
      Object.fromEntries(Object.entries(notes).map(([key, value]) => [key, JSON.stringify(value)])),
    )
    onNote?.(note, healthy)
    return note
  }
  // Stored before any change, so that it can be reverted after a failure.
  await keep()
  await incident.break(bench, environment)
  const live = new LiveCluster(cluster, client, { keepMoments: false })
  const contextOf = (snapshot: Snapshot) =>
    new IncidentContext(snapshot, live, environment, incident.mode)
  const symptomShows = () =>
    waitFor('the symptom to appear', SYMPTOM_MS, async () => {
      const objects = new Snapshot(await takeObjects(cluster, client))
      return (await incident.symptom(contextOf(objects))) !== undefined
    })
  await symptomShows()
  await laterSync(bench)
  const snapshot = new Snapshot(await takeCapture(cluster, client))
  if ((await incident.causeLeft(contextOf(snapshot))) === undefined) return undefined
  await symptomShows()
  // Where commands on nodes are not recorded, a manual repair may leave no trace.
  return keep(cluster.capabilities.recordsCommands ? baselineFingerprint(snapshot) : undefined)
}

/** The note of the open incident of lab 8; undefined if there is none. */
export async function currentNote(bench: LabBench): Promise<IncidentNote | undefined> {
  return (await latestIncident(bench, INCIDENT_LAB))?.note
}

/**
 * The incident of a lab, or of the lab in which one was started last; undefined if there is none.
 */
export async function latestIncident(
  { cluster, client }: LabBench,
  lab?: number,
): Promise<NotedIncident | undefined> {
  const noted = incidentsIn(new Snapshot(await takeObjects(cluster, client)))
  return noted.find((one) => lab === undefined || one.lab === lab)
}

/**
 * The next tier of hints of the incident of a lab, or of the latest one, which is recorded for the
 * points; the last one again after all.
 * @throws Refusal if no incident is open
 */
export async function takeHint(
  bench: LabBench,
  lab?: number,
): Promise<{ lab: number; tier: number; of: number; text: string }> {
  const open = await latestIncident(bench, lab)
  const found = open && (await openIncident(open.notes))
  if (!found)
    throw new Refusal(
      `No incident is open: \`${incidentCommand(lab ?? INCIDENT_LAB)}\` starts one.`,
    )
  const { note, incident } = found
  const { hints } = incident
  const tier = Math.min(note.hints + 1, hints.length)
  await writeNotes(bench.client, open.lab, {
    [INCIDENT_KEY]: JSON.stringify({ ...note, hints: tier }),
  })
  return { lab: open.lab, tier, of: hints.length, text: hints[tier - 1] ?? '' }
}

async function solvedSoFar(bench: LabBench, lab: number): Promise<string[]> {
  const notes = await incidentNotes(bench, lab)
  const before = notes.read(HISTORY_KEY, z.array(z.string())) ?? []
  const found = notes.read(CLOSED_KEY, closedNote) && (await openIncident(notes))
  return found ? [...new Set([...before, solvedMark(found.incident.id)])] : before
}

/** The requirements of incidents that a cluster meets. */
export async function environmentFeatures({ cluster, client }: LabBench): Promise<Set<Need>> {
  const has = new Set<Need>()
  if (cluster.capabilities.hasOutside) has.add('outside')
  if (cluster.capabilities.ownKernel) has.add('embedded')
  const nodes = (await listKubeProxyPods(client)).map(({ node }) => node)
  if ((await modeLacks(cluster, nodes, 'ipvs', 'rr')) === undefined) has.add('ipvs')
  if (await hasZones(client)) has.add('zones')
  const features = await versionFeatures(client)
  if (features.every(({ iptablesPartialSyncs }) => iptablesPartialSyncs)) has.add('partial-syncs')
  if (features.every(({ internalTrafficPolicy }) => internalTrafficPolicy !== 'ignored'))
    has.add('internal-policy')
  return has
}

/**
 * What the version of each node can do; a version that is too new to be modelled can do what the
 * newest one can.
 */
const versionFeatures = async ({ core }: KubeClient): Promise<Features[]> =>
  (await core.listNode()).items.map(({ status }) => {
    const version = status?.nodeInfo?.kubeletVersion ?? ''
    return featuresOf(newestBefore(version) ?? version)
  })

/**
 * True if Pods can run in several zones, and the cluster's version has spec.trafficDistribution.
 */
async function hasZones(client: KubeClient): Promise<boolean> {
  const { items } = await client.core.listNode()
  const workers = items.filter(
    ({ spec }) => !spec?.taints?.some(({ effect }) => effect === 'NoSchedule'),
  )
  const zones = workers.flatMap(
    ({ metadata }) => metadata?.labels?.['topology.kubernetes.io/zone'] ?? [],
  )
  if (new Set(zones).size < 2) return false
  return (await versionFeatures(client)).every(({ zoneHints }) => zoneHints === 'always')
}

/** Chooses by id, by seed, or at random, preferring unsolved ones. */
function choose(
  here: readonly Incident[],
  { id, seed }: IncidentRequest,
  solved: readonly string[],
) {
  if (id === undefined) {
    const drawing = seed ?? seedFor(here, (one) => !solved.includes(solvedMark(one.id)))
    return { incident: draw(here, drawing), seed: drawing }
  }
  const incident = here.find((one) => one.id === id)
  if (incident) return { incident, seed: seed ?? seedFor(here, (one) => one === incident) }
  throw new Refusal(
    `The incident "${id}" can't run on this cluster: \`make incident LIST=1\` lists the requirements.`,
  )
}
