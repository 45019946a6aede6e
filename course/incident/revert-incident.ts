import { isDeepStrictEqual } from 'node:util'
import { takeCapture, takeObjects } from '../../cluster/snapshot.ts'
import { configOf } from '../../grading/evaluate.ts'
import { listLabs } from '../../grading/lab-definition.ts'
import { forgetNotes, LabNotes } from '../../grading/lab-notes.ts'
import { type NodeView, Snapshot } from '../../grading/snapshot.ts'
import type { LabBench } from '../lab-bench.ts'
import {
  type Baseline,
  commandToRestore,
  differingSettings,
  foreignRules,
  serviceFacts,
} from './baseline.ts'
import { loadIncidents } from './incident.ts'
import {
  belongsToIncident,
  CLOSED_KEY,
  closedNote,
  INCIDENT_KEY,
  type IncidentNote,
  incidentNote,
  unseal,
} from './incident-note.ts'
import { INCIDENT_LAB, INCIDENT_LABELS, INCIDENT_SELECTOR, SHOP_OBJECTS } from './shop.ts'

/**
 * Reverts the incident of a lab, repaired or not, and the learner's attempts: foreign rules on
 * every node, the incident's own parts, kube-proxy's configuration, altered Services and Pods.
 * Deletes its notes. kube-proxy's own rules are repaired by the next deployShop or reset.
 */
export async function revertIncident(bench: LabBench, lab = INCIDENT_LAB): Promise<void> {
  const { cluster, client, progress } = bench
  const found = await openIncident(await incidentNotes(bench, lab))
  if (!found) return
  const { secret, incident } = found
  const before = new Snapshot(await takeCapture(cluster, client))
  progress.start('Reverting the incident')
  await incident.revert?.(bench, secret.environment)
  await Promise.all(before.nodes.map((node) => restoreForeign(bench, node, secret.baseline)))
  await restoreShop(bench, before, secret.baseline)
  await forgetNotes(client, lab, (key) => belongsToIncident(lab, key))
  progress.end(true)
  if (sameConfig(before, secret.baseline)) return
  await bench.editKubeProxyConfig(() => secret.baseline.configText)
  await bench.mode(incident.from ?? incident.mode, { force: true })
}

/**
 * A configuration that kube-proxy cannot read counts as different. The mode is ignored: deployShop
 * sets it.
 */
function sameConfig(now: Snapshot, { config }: Baseline): boolean {
  try {
    return differingSettings(configOf(now), config).length === 0
  } catch {
    return false
  }
}

async function restoreForeign(
  bench: LabBench,
  node: NodeView,
  { foreign }: Baseline,
): Promise<void> {
  const then = foreign[node.name] ?? []
  const now = foreignRules(node)
  const lines = [
    ...now.filter((rule) => !then.includes(rule)).map((rule) => commandToRestore(rule, 'new')),
    ...then.filter((rule) => !now.includes(rule)).map((rule) => commandToRestore(rule, 'gone')),
  ]
  if (lines.length > 0) await bench.onNode(node.name, `${lines.join('\n')}\ntrue`)
}

/** Deletes objects that differ from the manifest, so that they are created again. */
async function restoreShop(
  bench: LabBench,
  before: Snapshot,
  { services }: Baseline,
): Promise<void> {
  for (const { kind, metadata } of before.items) {
    if (
      kind !== 'Service' ||
      metadata.namespace !== SHOP_OBJECTS.namespace ||
      metadata.labels?.lab !== INCIDENT_LABELS.lab
    )
      continue
    const { name } = metadata
    if (name in services && isDeepStrictEqual(serviceFacts(before, name), services[name])) continue
    await bench.delete('Service', name)
  }
  const { items } = await bench.client.apps.listNamespacedDeployment({
    namespace: SHOP_OBJECTS.namespace,
    labelSelector: INCIDENT_SELECTOR,
  })
  // A Deployment that was never edited has generation 1.
  for (const { metadata } of items)
    if (metadata?.name !== SHOP_OBJECTS.shop || metadata.generation !== 1)
      await bench.delete('Deployment', metadata?.name ?? '')
}

/**
 * Ends the incidents of all labs but one, before other work: reverts those that are not repaired,
 * and removes the shop. A repaired one leaves correct rules, and at most kernel state that its
 * repair did not have to remove; its notes are kept. Resolves to the labs whose incident was not
 * repaired.
 */
export async function leaveIncidents(bench: LabBench, except?: number): Promise<number[]> {
  const noted = incidentsIn(new Snapshot(await takeObjects(bench.cluster, bench.client)))
  const left = noted.filter(({ lab }) => lab !== except)
  for (const { lab, notes, isRepaired } of left) {
    if (!isRepaired) {
      await revertIncident(bench, lab)
      continue
    }
    const found = await openIncident(notes)
    await found?.incident.revert?.(bench, found.secret.environment)
  }
  // A shop without an incident is left where one that began was interrupted.
  const isUnused = left.length === noted.length && (left.length > 0 || except === undefined)
  if (isUnused) await removeShop(bench)
  return left.filter(({ isRepaired }) => !isRepaired).map(({ lab }) => lab)
}

/** An incident in the notes of a lab. */
export interface NotedIncident {
  lab: number
  notes: LabNotes
  note: IncidentNote
  isRepaired: boolean
}

/** The labs whose notes have an incident, the latest first. */
export function incidentsIn(snapshot: Snapshot): NotedIncident[] {
  return listLabs()
    .flatMap(({ number: lab }) => {
      const notes = new LabNotes(lab, snapshot)
      const note = notes.read(INCIDENT_KEY, incidentNote)
      return note
        ? [{ lab, notes, note, isRepaired: notes.read(CLOSED_KEY, closedNote) !== undefined }]
        : []
    })
    .toSorted((one, other) => other.note.openedAt.localeCompare(one.note.openedAt))
}

/** The notes of a lab in the cluster. */
export const incidentNotes = async (
  { cluster, client }: LabBench,
  lab = INCIDENT_LAB,
): Promise<LabNotes> => new LabNotes(lab, new Snapshot(await takeObjects(cluster, client)))

/** The open incident of the lab notes, with its unsealed secret. */
export async function openIncident(notes: LabNotes) {
  const note = notes.read(INCIDENT_KEY, incidentNote)
  const secret = note && unseal(note.sealed)
  const incident = (await loadIncidents()).find(({ id }) => id === secret?.id)
  return secret && incident ? { note, secret, incident } : undefined
}

/** Deletes the objects of the incidents. */
export async function removeShop(bench: LabBench): Promise<void> {
  await Promise.all([
    bench.delete('Pod', SHOP_OBJECTS.customer.name),
    bench.deleteLabelled(INCIDENT_SELECTOR),
  ])
}
