import { isDeepStrictEqual } from 'node:util'
import {
  baselineFingerprint,
  commandToRestore,
  differingSettings,
  foreignRules,
  serviceFacts,
} from '../../course/incident/baseline.ts'
import {
  CLOSED_KEY,
  COST,
  closedNote,
  describeSeconds,
  incidentCommand,
} from '../../course/incident/incident-note.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectThat, fail, onNode } from '../../grading/failure.ts'
import { inChain } from '../../grading/predicted-part.ts'
import { dummyDeviceOwnsClusterIPs } from '../02-ipvs/equality.ts'
import {
  expectOpenIncident,
  incidentEffort,
  type OpenIncident,
  showCommand,
  wasDiagnosed,
} from './diagnosis.ts'

/** The reported symptom no longer occurs, tested with real requests. */
export async function symptomIsGone(context: CheckContext): Promise<void> {
  const open = await expectOpenIncident(context)
  const { incident, means } = open
  const symptom = await incident.symptom(means)
  const why = `The user reported: ${incident.report(means.environment)}`
  const hint = `\`${incidentCommand(context.notes.lab, 'HINT=1')}\` gives a hint.`
  if (symptom) fail({ ...symptom, why, hint })
  expectRepaired(context, open)
}

/** The cause is removed, and not only the symptom. */
export async function causeIsFixed(context: CheckContext): Promise<void> {
  const { notes } = context
  const open = await expectOpenIncident(context)
  const left = await open.incident.causeLeft(open.means)
  expectThat(left === undefined, {
    inspect: showCommand(notes),
    expected: 'the cause itself fixed',
    // After the diagnosis, the remaining cause may be disclosed.
    actual: (wasDiagnosed(notes) && left) || 'it is not: the original fault is still present',
    hint: `A repair that only hides the symptom does not last. \`${incidentCommand(notes.lab, 'HINT=1')}\` gives a hint.`,
  })
  expectRepaired(context, open)
}

/** Fails if the fault disappeared without a repair, for example by a sync of kube-proxy. */
function expectRepaired({ snapshot, notes }: CheckContext, { note }: OpenIncident): void {
  expectThat(note.fingerprint === undefined || note.fingerprint !== baselineFingerprint(snapshot), {
    inspect: showCommand(notes),
    expected: 'a repair',
    actual:
      'there was no repair: no object was changed and no command was run on a node since the incident began, and it works anyway',
    why: 'kube-proxy has written its rules again by itself, which gives no points.',
    hint: 'Start another one:',
    next: incidentCommand(notes.lab),
  })
}

/** The commands that show what kube-proxy has programmed on a node. */
const allOfNode = (mode: string): string =>
  mode === 'ipvs'
    ? 'iptables-save; ipset list; ipvsadm -Ln; ip addr show kube-ipvs0'
    : 'iptables-save'
const AS_PROGRAMMED = 'exactly what kube-proxy programs for the existing Services'
const BY_HAND = {
  why: 'A rule that is added by hand works until kube-proxy writes its own, and confuses the next administrator.',
  hint: 'Undo manual changes; kube-proxy writes all of its rules when it starts.',
}

/**
 * The cause is fixed, a kube-proxy runs on every node, and each node has exactly the predicted
 * state.
 */
export async function nodesAreRight(context: CheckContext): Promise<void> {
  await causeIsFixed(context)
  const { nodes } = context
  const { mode } = (await expectOpenIncident(context)).means
  expectNodes(nodes).runMode(mode)
  expectNodes(nodes).everything(allOfNode(mode)).equalPrediction(mode, AS_PROGRAMMED, BY_HAND)
  if (mode === 'ipvs') dummyDeviceOwnsClusterIPs(context)
  expectNodes(nodes).nothingOfOtherModes(mode, { inspect: 'iptables-save; ipvsadm -Ln; ip addr' })
}

/**
 * The cause is fixed, and foreign rules, kube-proxy's configuration and the Services are as before.
 */
export async function restIsAsBefore(context: CheckContext): Promise<void> {
  await causeIsFixed(context)
  const open = await expectOpenIncident(context)
  nothingForeign(context, open)
  objectsAreAsBefore(context, open)
  showDebrief(context, open)
}

/** kube-proxy 1.20, which lab 5 runs, leaves it; newer versions do not remove it. */
const leftByOldVersion = inChain('nat KUBE-FIREWALL')

/**
 * The same for the one step of another lab, where the question about the cause shows the debrief.
 * What an earlier mode or version has left there is not the incident's. `ownServers`: the learner
 * has virtual servers beside kube-proxy's.
 */
export async function incidentIsOver(context: CheckContext, ownServers: boolean): Promise<void> {
  if (context.live) await symptomIsGone(context)
  await causeIsFixed(context)
  const { nodes } = context
  const open = await expectOpenIncident(context)
  const { mode } = open.means
  expectNodes(nodes).runMode(mode)
  if (!ownServers)
    expectNodes(nodes)
      .where((where) => !leftByOldVersion(where), allOfNode(mode))
      .equalPrediction(mode, AS_PROGRAMMED, BY_HAND)
  nothingForeign(context, open)
  objectsAreAsBefore(context, open)
}

/** Rules that only the learner can have added or removed. */
function nothingForeign({ nodes }: CheckContext, { baseline }: OpenIncident): void {
  for (const node of nodes) {
    const before = baseline.foreign[node.name] ?? []
    const now = foreignRules(node)
    const added = now.find((rule) => !before.includes(rule))
    const gone = before.find((rule) => !now.includes(rule))
    const found = added ?? gone
    expectThat(found === undefined, {
      node: node.name,
      inspect: onNode(node.name, 'iptables-save'),
      expected: 'the rules of others as they were before the incident',
      actual: added ? `this is new: ${found}` : `this is gone: ${found}`,
      ...(found && { next: onNode(node.name, commandToRestore(found, added ? 'new' : 'gone')) }),
    })
  }
}

function objectsAreAsBefore({ snapshot }: CheckContext, { baseline }: OpenIncident): void {
  const settings = differingSettings(configOf(snapshot), baseline.config)
  expectThat(settings.length === 0, {
    inspect: 'kubectl -n kube-system get configmap kube-proxy -o yaml',
    expected: "kube-proxy's configuration as it was before the incident",
    actual: `another one in ${settings.join(', ')}`,
  })
  for (const [name, before] of Object.entries(baseline.services))
    expectThat(isDeepStrictEqual(serviceFacts(snapshot, name), before), {
      inspect: `kubectl get service ${name} -o yaml`,
      expected: `the Service ${name} as its users know it: ${JSON.stringify(before)}`,
      actual: JSON.stringify(serviceFacts(snapshot, name) ?? 'no such Service'),
    })
}

/**
 * Adds the debrief and the effort after the diagnosis to the report, and stores the time of the
 * repair.
 */
function showDebrief(context: CheckContext, { incident, note }: OpenIncident): void {
  const { notes, show } = context
  if (!wasDiagnosed(notes)) {
    show([
      'Repaired. Name the cause, too, for the debrief: make answer Q=diagnosis A=… (make incident SHOW=1 lists causes).',
    ])
    return
  }
  const at = notes.read(CLOSED_KEY, closedNote)?.at ?? new Date().toISOString()
  notes.keep(CLOSED_KEY, { at })
  const { hints, wrong } = incidentEffort(context)
  const seconds = Math.round((Date.parse(at) - Date.parse(note.openedAt)) / 1000)
  show([
    `Repaired in ${describeSeconds(seconds)}. Hints: ${hints}, wrong diagnoses: ${wrong}; each costs ${COST} of the points of the diagnosis.`,
    incident.debrief.replaceAll('\n', ' '),
  ])
}
