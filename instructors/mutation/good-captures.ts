import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { leftoverDifferences } from '../../checks/02-ipvs/mode-switch.ts'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import type { Difference } from '../../dataplane/compare.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { listLabs } from '../../grading/lab-definition.ts'
import { notesOf } from '../../grading/lab-notes.ts'
import { isLearningKey } from '../../grading/learning-notes.ts'
import { modeOf, Snapshot, stateOf } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
import { capturesToJudge } from '../submission/latest-answers.ts'
import { hasPredictions } from '../submission/manifest.ts'
import { readSubmission } from '../submission/read-submission.ts'
import type { Mutation } from './mutation.ts'

/**
 * A recorded cluster in IPVS mode without the leftovers of iptables mode, as after
 * `make flush-nat`.
 */
export function flushed(capture: Capture): Capture {
  const snapshot = new Snapshot(capture)
  const nodes = capture.nodes.map((node) => {
    const view = snapshot.node(node.name)
    const state = structuredClone(stateOf(view))
    for (const difference of leftoverDifferences(view)) removeLeftover(state, difference)
    const { iptables, ip6tables } = state
    const files = new Map(node.files).set('iptables-save', printIptablesSave(iptables))
    return {
      ...node,
      files: ip6tables ? files.set('ip6tables-save', printIptablesSave(ip6tables)) : files,
    }
  })
  return { ...capture, nodes }
}

/** Removes the chain or rule that a difference is about, if it is a leftover. */
function removeLeftover(
  { iptables, ip6tables }: NodeState,
  { where, kind, actual = '' }: Difference,
): void {
  if (!('chain' in where) || kind !== 'stale') return
  const table = (where.family === 'ipv6' ? ip6tables : iptables)?.get(where.table)
  const chain = table?.get(where.chain)
  if (actual.startsWith(':')) table?.delete(where.chain)
  else if (chain)
    chain.rules = chain.rules.filter(({ spec }) => `-A ${where.chain} ${spec}` !== actual)
}

/** A recorded cluster on which some steps of a lab pass: the base of mutations. */
export interface GoodCapture {
  name: string
  /** Where it was recorded: `embedded`, or the genuine cluster, `kind-v1.20.2`. */
  driver: string
  spec: LabSpec
  capture: Capture
  /** The same, read. */
  snapshot: Snapshot
  /**
   * The steps that pass because of the nodes' state, not because of a note of an earlier moment.
   */
  passing: readonly string[]
  /** Whether predictions and questions beside a state count, as in a submission of that version. */
  asks: boolean
  /**
   * These steps also pass on the lab's notes alone, without node state and without other objects.
   */
  judgesOnlyNotes: boolean
  /** For the capture of a moment: the same cluster at the end of the lab. */
  end?: GoodCapture | undefined
  /** For a genuine cluster that was recorded during the lab: its last step does not pass. */
  isPart?: boolean
  /** For the end of a submission. */
  isEnd?: boolean
}

const DATA = join(projectRoot, 'data')

/**
 * Every good capture. A lab joins when its spec exists and either a submission of it, as
 * `make submit` writes it, is in data/solved, or a genuine cluster recorded under
 * data/recordings/kind-* lets some of its steps pass.
 */
export async function goodCaptures(): Promise<GoodCapture[]> {
  const specs = await Promise.all(listLabs().map(loadSpec))
  const solved = readdirSync(join(DATA, 'solved')).filter((name) => name.endsWith('.labgrade'))
  const handedIn = await Promise.all(
    solved.sort().map((file) => ofSubmission(specs, join(DATA, 'solved', file))),
  )
  const genuine = await Promise.all(
    genuineCaptures().flatMap(([name, capture]) =>
      specs.map((spec) => {
        const driver = name.split(' ')[0] ?? name
        const asks = false
        return good({ name: `${name}, lab ${spec.lab.number}`, driver, spec, capture, asks })
      }),
    ),
  )
  const telling = genuine
    // If only the lab's first step passes, the capture is useless for the lab.
    .filter(({ passing }) => passing.length > 1)
    .map((one) => ({ ...one, isPart: !one.passing.includes(one.spec.lab.steps.at(-1)?.id ?? '') }))
  return [...handedIn.flat(), ...telling].filter(({ passing }) => passing.length > 0)
}

/**
 * The captures of a submission, the end first, each of which proves a step that no earlier one
 * proves.
 */
async function ofSubmission(specs: readonly LabSpec[], file: string): Promise<GoodCapture[]> {
  const submission = await readSubmission(file)
  const { lab, cluster, steps, final } = submission.manifest
  const asks = hasPredictions(submission.manifest)
  const spec = specs.find((one) => one.lab.number === lab)
  if (!spec) return []
  // A lab whose steps are all about moments ends with the notes of all of them.
  const endsInNotes = spec.steps.every(({ moment }) => moment)
  const moments = new Set(spec.steps.filter(({ moment }) => moment).map(({ id }) => id))
  const proved = new Set<string>()
  const kept: GoodCapture[] = []
  for (const [id, capture] of [...capturesToJudge(submission)].sort(
    ([a], [b]) => Number(b === final) - Number(a === final),
  )) {
    const isEnd = id === final
    const own = new Set(
      steps.filter((step) => [step.capture, step.held].includes(id)).map((step) => step.id),
    )
    const byState = await passedByState(spec, capture, asks)
    const isProved = (step: string) =>
      own.has(step) || !moments.has(step) || byState.has(step) || (isEnd && endsInNotes)
    const name = `lab ${lab} ${cluster.driver}, ${id}`
    const recorded = { name, driver: cluster.driver, spec, capture, asks }
    const found = await good(recorded, isProved)
    if (found.passing.every((step) => proved.has(step))) continue
    for (const step of found.passing) proved.add(step)
    const [end] = kept
    kept.push({ ...found, isEnd, end: end?.isEnd ? end : undefined })
  }
  return kept
}

/**
 * The steps that pass on a capture without what the lab's notes keep of earlier moments; answers
 * and evidence stay.
 */
async function passedByState(
  spec: LabSpec,
  capture: Capture,
  asks: boolean,
): Promise<ReadonlySet<string>> {
  const { items } = capture.objects
  const notes = notesOf(items, spec.lab.number)
  const learned = Object.entries(notes?.data ?? {}).filter(([key]) => isLearningKey(key))
  const stripped = items.map((item) =>
    item === notes ? { ...notes, data: Object.fromEntries(learned) } : item,
  )
  const snapshot = new Snapshot({ ...capture, objects: { ...capture.objects, items: stripped } })
  const outcomes = await judgeRound(spec, snapshot, undefined, undefined, asks)
  return new Set(outcomes.flatMap(({ id, verdict }) => (verdict === 'passed' ? [id] : [])))
}

async function good(
  recorded: Pick<GoodCapture, 'name' | 'driver' | 'spec' | 'capture' | 'asks'>,
  isProved: (step: string) => boolean = () => true,
): Promise<GoodCapture> {
  const { spec, capture, asks } = recorded
  const passes = async (on: Snapshot, only?: string[]) =>
    (await judgeRound(spec, on, undefined, only, asks)).flatMap(({ id, verdict }) =>
      verdict === 'passed' ? [id] : [],
    )
  const snapshot = new Snapshot(capture)
  const passing = (await passes(snapshot)).filter(isProved)
  const notes = notesOf(capture.objects.items, spec.lab.number)
  const nodes = capture.nodes.map(({ name }) => ({ name, files: new Map<string, string>() }))
  const bare = new Snapshot({ objects: { ...capture.objects, items: notes ? [notes] : [] }, nodes })
  const judgesOnlyNotes = (await passes(bare, passing)).length === passing.length
  return { ...recorded, snapshot, passing, judgesOnlyNotes }
}

/** The node of the learner's client Pod, where packets are traced from; else the last, a worker. */
export function busiestNode({ capture, snapshot }: GoodCapture): string {
  const client = snapshot.find('Pod', 'default', 'client')?.spec?.nodeName
  return client ?? capture.nodes.at(-1)?.name ?? ''
}

/**
 * The nodes that mutations are made on: the busiest, and the control plane, which has no Pods and
 * is the director in lab 4.
 */
export function nodesToBreak(good: GoodCapture): string[] {
  const controlPlane = good.snapshot.items.find(
    ({ kind, metadata }) =>
      kind === 'Node' && metadata.labels?.['node-role.kubernetes.io/control-plane'] !== undefined,
  )
  return [...new Set([busiestNode(good), controlPlane?.metadata.name ?? busiestNode(good)])]
}

/** Whole genuine clusters as recorded, those in IPVS mode after a flush as well. */
function genuineCaptures(): [name: string, capture: Capture][] {
  const recordings = join(DATA, 'recordings')
  const versions = readdirSync(recordings).filter(
    (name) => name.startsWith('kind-') && !name.endsWith('.br'),
  )
  return versions.flatMap((version) =>
    readdirSync(join(recordings, version))
      .filter((stage) => existsSync(join(recordings, version, stage, 'objects.json')))
      .flatMap((stage): [string, Capture][] => {
        const capture = readCaptureFolder(join(recordings, version, stage))
        const name = `${version} ${stage}`
        const inIpvs = new Snapshot(capture).nodes.every((node) => modeOf(node) === 'ipvs')
        return inIpvs ? [[`${name}, then flushed`, flushed(capture)]] : [[name, capture]]
      }),
  )
}

/** The verdicts after a mutation of the steps that pass on the good capture. */
interface Notice {
  /** The steps that no longer pass. */
  steps: string[]
  /** One of them names the mutated node and the changed place. */
  about: boolean
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function noticed(good: GoodCapture, mutation: Mutation): Promise<Notice> {
  const snapshot = new Snapshot(mutation.apply(good.capture), good.snapshot)
  const outcomes = await judgeRound(good.spec, snapshot, undefined, good.passing, good.asks)
  const open = outcomes.filter(
    ({ verdict }) => verdict === 'failed' || verdict === 'not applicable',
  )
  return {
    steps: open.map(({ id }) => id),
    about: open.some((outcome) => isAbout(outcome, mutation)),
  }
}

/**
 * A step about a moment does not fail on a capture that does not show it: it is not applicable,
 * with a reason.
 */
function isAbout(
  { verdict, reason = '', failure }: StepOutcome,
  { node, mentions }: Mutation,
): boolean {
  if (verdict === 'not applicable') return mentions.some((word) => reason.includes(word))
  if (!failure || (node !== undefined && failure.node !== node)) return false
  const { inspect, expected, actual, differences } = failure
  const reported = JSON.stringify([inspect, expected, actual, differences])
  return mentions.some((word) => reported.includes(word))
}
