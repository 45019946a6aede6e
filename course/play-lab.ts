import { chalk } from 'zx/core'
import { changeCluster } from '../cluster/cluster-lock.ts'
import { takeObjects } from '../cluster/snapshot.ts'
import type { LabSpec } from '../grading/check-context.ts'
import type { StepOutcome } from '../grading/failure.ts'
import { type Judgement, judge, type Source } from '../grading/judge.ts'
import type { StepDefinition } from '../grading/lab-definition.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { pendingChanges } from '../grading/pending-changes.ts'
import { Snapshot } from '../grading/snapshot.ts'
import { personalise } from '../grading/variant.ts'
import { DeadlineError, waitFor } from '../host/wait.ts'
import type { LabBench, LabSolution, SolutionStep } from './lab-bench.ts'
import { programmed } from './programmed.ts'

/**
 * A step that acts, and the steps behind it that only look, are answered, or leave what is judged before them as it is: all are
 * judged on one snapshot. To answer means to look and to write down, so it takes nothing from the steps before.
 */
interface Act {
  steps: StepDefinition[]
  solution: SolutionStep
  /** How the steps behind the first one are solved, by step. */
  others: Map<string, SolutionStep>
  /** What is to be undone behind the last of them. */
  tidy: SolutionStep['tidy']
}

/** What came of playing a solution. */
export interface Played {
  /** Of the steps so far. */
  outcomes: StepOutcome[]
  /** The last judgement, where nothing was done since: the cluster still stands as it says. */
  standing: Judgement | undefined
}

/**
 * Plays the reference solution of steps in order, telling what it does, and grades each on the nodes. Stops at the first that
 * does not pass.
 */
export function playActs(
  spec: LabSpec,
  solution: LabSolution,
  bench: LabBench,
  source: Source,
  steps: readonly StepDefinition[],
): Promise<Played> {
  const doing = `plays the solution of lab ${spec.lab.number} on`
  return changeCluster(bench.cluster, doing, bench.progress, () => playAlone(spec, solution, bench, source, steps))
}

async function playAlone(
  spec: LabSpec,
  solution: LabSolution,
  bench: LabBench,
  source: Source,
  steps: readonly StepDefinition[],
): Promise<Played> {
  const outcomes: StepOutcome[] = []
  let standing: Judgement | undefined
  for (const act of actsOf(steps, solution)) {
    announce(spec, act.steps[0])
    tell(act.solution.commands, bench)
    const before = standing?.snapshot
    bench.seen = before
    const others = [...act.others.values()]
    const first = [act.solution, ...others.filter(({ together }) => together === 'at once')]
    await Promise.all(first.map(({ play }) => play?.(bench)))
    // What the step itself looked at last holds on the nodes as long as nobody does more than to answer.
    const looked = act.solution.inspects || bench.seen !== before
    const answers = act.steps.filter(({ id }) => act.others.has(id)).every(({ question }) => question !== undefined)
    const seen = looked && answers ? bench.seen : undefined
    let moving = first.some(({ play }) => play) && !seen
    for (const { play, together } of others) {
      if (together === 'at once') continue
      // An answer is looked up where all is still; what only adds to the cluster need not wait for that.
      if (moving && !together) await stillness(bench)
      moving = together === true
      await play?.(bench)
    }
    if (moving) await stillness(bench)
    const only = act.steps.map(({ id }) => id)
    const snapshot = seen && act.others.size > 0 ? await bench.withObjectsOfNow(seen) : seen
    standing = await judge(spec, snapshot ? { ...source, standing: { snapshot, outcomes: [] } } : source, { only })
    const judged = standing.outcomes
    for (const [index, step] of act.steps.entries()) {
      const outcome = judged.find(({ id }) => id === step.id)
      if (!outcome) throw new Error(`step "${step.id}" was not judged`)
      if (index > 0) announce(spec, step)
      tell(act.others.get(step.id)?.commands ?? [], bench)
      console.log(`  ${outcomeLine(outcome, step)}`)
      for (const line of measuredLines(outcome)) console.log(line)
      for (const line of failureLines(spec.lab.number, step, outcome)) console.log(line)
      outcomes.push(outcome)
    }
    if (judged.some(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable')) break
    const { tidy } = act
    if (!tidy) continue
    standing = undefined
    tell(tidy.commands, bench)
    await tidy.play(bench)
  }
  return { outcomes, standing }
}

/** As playActs; only the outcomes. */
export async function playSteps(...played: Parameters<typeof playActs>): Promise<StepOutcome[]> {
  return (await playActs(...played)).outcomes
}

function tell(commands: readonly string[], { variant }: LabBench): void {
  for (const command of commands) console.log(`  $ ${personalise(command, variant)}`)
}

/** kube-proxy may take a second for what has just changed, where it can't be told that all is programmed. */
const freshMs = 1000
const syncMs = 3000

/**
 * Waits until the API shows nothing on its way and kube-proxies have followed: asking a node before that is asking in vain. Where
 * that never comes, the checks say what is wrong.
 */
async function stillness({ cluster, client }: LabBench): Promise<void> {
  try {
    await waitFor('the cluster to stand still', 10_000, async () => {
      const fresh = cluster.synced ? 0 : freshMs
      return pendingChanges(new Snapshot(await takeObjects(cluster, client)), fresh).length === 0
    })
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
  }
  await programmed(cluster, client, syncMs)
}

function actsOf(steps: readonly StepDefinition[], solution: LabSolution): Act[] {
  const acts: Act[] = []
  for (const step of steps) {
    const entry = solution.steps[step.id]
    if (!entry) throw new Error(`The reference solution has no step "${step.id}".`)
    const last = acts.at(-1)
    const harmless = entry.together || step.question !== undefined
    const joins = last && (!entry.play || (harmless && !last.tidy))
    if (!joins) {
      acts.push({ steps: [step], solution: entry, others: new Map(), tidy: entry.tidy })
      continue
    }
    last.steps.push(step)
    if (entry.play) last.others.set(step.id, entry)
    last.tidy ??= entry.tidy
  }
  return acts
}

function announce({ lab }: LabSpec, step: StepDefinition | undefined): void {
  if (!step) return
  const number = lab.steps.findIndex(({ id }) => id === step.id) + 1
  console.log(`\n${chalk.bold(`${number}/${lab.steps.length} ${step.id}`)}  ${step.title}`)
}
