import { setTimeout as pause } from 'node:timers/promises'
import { scaledMs } from '../host/wait.ts'
import type { CheckContext, CheckedStep, LabSpec } from './check-context.ts'
import {
  Failure,
  NotApplicable,
  OutOfReach,
  PastMoment,
  type StepOutcome,
  Trouble,
  Unanswered,
} from './failure.ts'
import type { StepDefinition } from './lab-definition.ts'
import { LabNotes } from './lab-notes.ts'
import { learningOf } from './learning-notes.ts'
import { type LiveCluster, PacketsNotSent, type SnapshotSource } from './live-cluster.ts'
import { pendingChanges } from './pending-changes.ts'
import type { Snapshot } from './snapshot.ts'

export interface JudgeOptions {
  /** Judge only these steps; other steps that they depend on count as passed. */
  only?: readonly string[] | undefined
  /** How long to wait for a changing cluster, in milliseconds, before the scale factor. */
  patienceMs?: number
  /** Is told the pending changes each time a round has to wait for them. */
  onWait?: (pending: readonly string[]) => void
}

export interface Judgement {
  outcomes: StepOutcome[]
  /** The one of the last round. */
  snapshot: Snapshot
}

const PATIENCE_MS = 20_000
const PAUSE_MS = 400

/**
 * Judges a lab. Each round takes one snapshot and judges every step on it. While a step fails and
 * the cluster has pending changes, rounds repeat until the deadline; steps that fail then are
 * `not yet`.
 * @throws what `source.snapshot` throws when the cluster can't be read at all
 */
export async function judge(
  spec: LabSpec,
  source: SnapshotSource,
  options: JudgeOptions = {},
): Promise<Judgement> {
  const deadline = Date.now() + scaledMs(options.patienceMs ?? PATIENCE_MS)
  for (;;) {
    const snapshot = await source.snapshot()
    const outcomes = await judgeRound(spec, snapshot, source.live, options.only)
    const moving = source.live ? pendingChanges(snapshot) : []
    const unsure = outcomes.some(({ verdict }) => verdict === 'failed')
    if (!unsure || moving.length === 0) {
      source.live?.checks?.keep(spec.lab.number, snapshot, outcomes)
      return { outcomes, snapshot }
    }
    if (Date.now() >= deadline) {
      const reason = `the cluster was still changing when time ran out: ${moving.slice(0, 3).join(', ')}`
      return { outcomes: outcomes.map((outcome) => stillMoving(outcome, reason)), snapshot }
    }
    options.onWait?.(moving)
    await pause(PAUSE_MS)
  }
}

const stillMoving = (outcome: StepOutcome, reason: string): StepOutcome =>
  outcome.verdict === 'failed' ? { ...outcome, verdict: 'not yet', reason } : outcome

/**
 * The input of the checks of one round. Predictions and questions beside a state are asked on a
 * running cluster, and of a capture with notes of the lab; `asks` says otherwise.
 */
export const contextOf = (
  snapshot: Snapshot,
  notes: LabNotes,
  live: LiveCluster | undefined,
  asks = live !== undefined || notes.exist,
): CheckContext => ({ snapshot, nodes: snapshot.nodes, notes, live, asks, show: () => {} })

/** Judges every step once, all on the same snapshot. */
export async function judgeRound(
  spec: LabSpec,
  snapshot: Snapshot,
  live: LiveCluster | undefined,
  only?: readonly string[],
  asks?: boolean,
): Promise<StepOutcome[]> {
  const notes = new LabNotes(spec.lab.number, snapshot)
  const context = contextOf(snapshot, notes, live, asks)
  if (live) for (const observe of spec.observers) observeQuietly(observe, context)
  const outcomes = new Map<string, StepOutcome>()
  for (const step of spec.steps)
    if (!only || only.includes(step.id))
      outcomes.set(step.id, {
        ...(waitsFor(step, outcomes) ?? (await judgeStep(step, context))),
        // Also of a step that waits for others again: what was predicted there stays predicted.
        ...learningAt(step, context),
      })
  if (live && notes.hasNews) await notes.save(live.client)
  const judgedNow = await withMachines([...outcomes.values()], live)
  live?.moments?.keep(spec.lab.number, snapshot, judgedNow)
  return judgedNow
}

/**
 * A step that fails while a machine of the cluster is down could not be checked: lost requests are
 * not the learner's fault.
 */
async function withMachines(
  outcomes: StepOutcome[],
  live: LiveCluster | undefined,
): Promise<StepOutcome[]> {
  const isOpen = ({ verdict }: StepOutcome) => verdict === 'failed' || verdict === 'not yet'
  const stopped = live && outcomes.some(isOpen) ? await live.stoppedNodes() : []
  if (stopped.length === 0) return outcomes
  const reason = `not every node runs: ${stopped.join(', ')}; \`make up\` starts them again`
  return outcomes.map((outcome) =>
    isOpen(outcome) ? { id: outcome.id, verdict: 'could not check', reason } : outcome,
  )
}

/** An observer that can't read the cluster records nothing; the steps report the problem. */
function observeQuietly(observe: LabSpec['observers'][number], context: CheckContext): void {
  try {
    observe(context)
  } catch (error) {
    if (!(error instanceof Trouble || error instanceof Failure)) throw error
  }
}

function waitsFor(
  { id, needs }: StepDefinition,
  outcomes: ReadonlyMap<string, StepOutcome>,
): StepOutcome | undefined {
  const open = needs.filter((need) => {
    const { verdict, unsent, unanswered } = outcomes.get(need) ?? {}
    // The state that this step builds on holds, even without a prediction or an answer there.
    return (
      !unsent &&
      !unanswered &&
      verdict !== undefined &&
      verdict !== 'passed' &&
      verdict !== 'not applicable'
    )
  })
  if (open.length === 0) return undefined
  const uncheckable = open.some((need) => outcomes.get(need)?.verdict === 'could not check')
  const reason = `waits for: ${open.join(', ')}`
  return { id, verdict: uncheckable ? 'could not check' : 'not yet', waitsFor: open, reason }
}

async function judgeStep(step: CheckedStep, context: CheckContext): Promise<StepOutcome> {
  let measured: string[] = []
  const show = (lines: readonly string[]) => {
    measured = [...lines]
  }
  const outcome = await runCheck(step, { ...context, show })
  // Measured values can contain the answer.
  const isTold = measured.length > 0 && outcome.unanswered === undefined
  return { id: step.id, ...outcome, ...(isTold && { measured }) }
}

/** What the notes say about the prediction and question of a step that has one. */
const learningAt = (
  { id, question, predict }: CheckedStep,
  { notes }: CheckContext,
): Pick<StepOutcome, 'learning'> => (question || predict ? { learning: learningOf(id, notes) } : {})

async function runCheck(
  { check, cost }: CheckedStep,
  context: CheckContext,
): Promise<Omit<StepOutcome, 'id'>> {
  try {
    await check(context)
    const deducted = cost?.(context) ?? 0
    return { verdict: 'passed', ...(deducted > 0 && { cost: deducted }) }
  } catch (error) {
    return outcomeOfError(error)
  }
}

/** The outcome of a check that threw. */
function outcomeOfError(error: unknown): Omit<StepOutcome, 'id'> {
  if (error instanceof Unanswered) {
    const reason = `waits for your ${error.missing}`
    return { verdict: 'not yet', unanswered: error.missing, reason, failure: error.detail }
  }
  if (error instanceof Failure) return { verdict: 'failed', failure: error.detail }
  if (error instanceof PacketsNotSent)
    return {
      verdict: 'not yet',
      unsent: true,
      reason: 'the requests that prove it have not been sent',
    }
  if (error instanceof NotApplicable)
    return {
      verdict: 'not applicable',
      reason: error.message,
      ...(error instanceof OutOfReach && { outOfReach: true }),
      ...(error instanceof PastMoment && { pastMoment: true }),
    }
  const reason = error instanceof Error ? error.message : String(error)
  return {
    verdict: 'could not check',
    reason: error instanceof Trouble ? reason : `the check itself failed (${reason})`,
  }
}
