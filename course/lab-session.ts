// One learner's work on one lab of a running cluster: what the terminal guide and the guide's page
// both do, and nothing of how it is shown.

import type { Cluster } from '../cluster/driver.ts'
import type { ReportDepth } from '../cluster/node-report.ts'
import type { CompleteCheck } from '../grading/complete-checks.ts'
import type { StepOutcome } from '../grading/failure.ts'
import { type JudgeOptions, judge, judgeRound } from '../grading/judge.ts'
import { findStep, type LabDefinition } from '../grading/lab-definition.ts'
import { notesName, readConfigMap, writeNotes } from '../grading/lab-notes.ts'
import type { LiveCluster } from '../grading/live-cluster.ts'
import { storedPrediction } from '../grading/question.ts'
import type { Snapshot } from '../grading/snapshot.ts'
import { personalise, type Variant } from '../grading/variant.ts'
import { reasonOf } from '../host/main.ts'
import { plainText } from '../host/plain-text.ts'
import type { Progress } from '../host/progress.ts'
import { judgeQuietly, showAnswer } from './answer-step.ts'
import { rememberHint, shownHints } from './hints.ts'
import { LabBench } from './lab-bench.ts'
import {
  type GuideLab,
  type GuideNote,
  type LabProgress,
  readGuideNote,
  shownStepId,
  startProgress,
} from './lab-progress.ts'
import { endIncidentsOfOthers, type LabSolution, resetLab } from './lab-solution.ts'
import { readLabText, withPaths } from './lab-text.ts'
import { gradeLab, type OpenLab, openLab, playSteps } from './play-lab.ts'
import { summariseLab } from './summarise-lab.ts'

const NOTE_KEY = 'guide'

export class LabSession {
  readonly source: OpenLab['source']
  readonly bench: LabBench
  readonly lab: GuideLab
  /** The progress with which a guide left the lab, or that of its start. */
  readonly begun: LabProgress
  readonly #open: OpenLab
  readonly #quiet: LiveCluster
  #workedMs: number
  #since: number | undefined = Date.now()
  #saved: Promise<void> = Promise.resolve()
  /** When each step was last seen in a state that packets alone could not prove. */
  readonly #changedAt = new Map<string, number>()

  private constructor(open: OpenLab, note: GuideNote | undefined) {
    const { spec, solution, bench, source } = open
    this.source = source
    this.bench = bench
    this.lab = guideLab(spec.lab, solution, bench.variant)
    this.begun = startProgress(this.lab, note, shownHints(spec.lab.number, bench.cluster.name))
    this.#open = open
    this.#quiet = source.live.quietly()
    this.#workedMs = note?.workedMs ?? 0
  }

  /**
   * Opens a lab at its saved state, or resets it to its starting state. Requires consent for a
   * cluster of the user's kubeconfig. `depth` is that of each observation.
   */
  static async open(
    lab: LabDefinition,
    cluster: Cluster,
    progress: Progress,
    depth?: ReportDepth,
  ): Promise<LabSession> {
    const bench = await LabBench.open(cluster, progress, `work through lab ${lab.number}`)
    const begun = await readConfigMap(bench.client, notesName(lab.number))
    if (begun) {
      await endIncidentsOfOthers(lab, bench)
      progress.note(
        `Lab ${lab.number} continues with the state of the cluster; make reset-${lab.number} starts over.`,
      )
    } else await resetLab(lab, bench)
    return new LabSession(await openLab(lab, bench, { depth }), readGuideNote(begun?.[NOTE_KEY]))
  }

  /**
   * Reads the nodes once and judges every step, without sending packets: a step that only packets
   * can prove has the outcome of its latest complete check, by whichever program. Throws if the
   * cluster can't be read.
   */
  async observe(): Promise<{ snapshot: Snapshot; outcomes: StepOutcome[] }> {
    const snapshot = await this.source.snapshot()
    const outcomes = await judgeRound(this.#open.spec, snapshot, this.#quiet)
    const { checks } = this.source.live
    const complete = checks?.of(this.lab.definition.number, snapshot) ?? new Map()
    return {
      snapshot,
      outcomes: outcomes.map((outcome) => this.#completed(outcome, complete.get(outcome.id))),
    }
  }

  /** A failure counts only until something else about the step has changed on the nodes. */
  #completed(outcome: StepOutcome, complete: CompleteCheck | undefined): StepOutcome {
    if (!outcome.unsent) this.#changedAt.set(outcome.id, Date.now())
    else if (
      complete &&
      (complete.outcome.verdict === 'passed' ||
        complete.at > (this.#changedAt.get(outcome.id) ?? 0))
    )
      return complete.outcome
    return outcome
  }

  /**
   * Checks a step completely, including its requests. `onWait` is told the pending changes of the
   * cluster that it waits for.
   */
  async check(step: string, onWait?: JudgeOptions['onWait']): Promise<StepOutcome> {
    const { outcomes } = await judge(this.#open.spec, this.source, {
      only: [step],
      ...(onWait && { onWait }),
    })
    return (
      outcomes[0] ?? { id: step, verdict: 'could not check', reason: 'the step was not judged' }
    )
  }

  /**
   * What a step comes to after an answer or a prediction was kept. After a prediction no packets
   * are sent: those of the grader would be listed beside the learner's, which this step is about.
   */
  async checkAnswered(
    kept: 'prediction' | 'answer',
    step: string,
    onWait?: JudgeOptions['onWait'],
  ): Promise<StepOutcome> {
    if (kept === 'answer') return this.check(step, onWait)
    const { spec } = this.#open
    const checked = spec.steps.find(({ id }) => id === step)
    if (!checked) throw new Error(`Lab ${spec.lab.number} has no step "${step}".`)
    return judgeQuietly(spec, checked, this.source, onWait)
  }

  /**
   * Stores the prediction of a step in the cluster if it has one that was not given yet, else an
   * answer. Throws Error with a sentence for the learner if it is not valid.
   */
  async answer(step: string, text: string): Promise<'prediction' | 'answer'> {
    const { number } = this.lab.definition
    const { predict } = findStep(this.lab.definition, step)
    const isPrediction = predict && !(await storedPrediction(this.bench.client, number, step))
    if (isPrediction) await this.bench.predict(number, step, text)
    else await this.bench.answer(number, step, text)
    return isPrediction ? 'prediction' : 'answer'
  }

  /**
   * Shows what a step asks for, which costs its points for understanding if it was not answered.
   * Returns lines.
   */
  async showAnswer(step: string): Promise<string[]> {
    const { spec } = this.#open
    const checked = spec.steps.find(({ id }) => id === step)
    if (!checked) throw new Error(`Lab ${spec.lab.number} has no step "${step}".`)
    return (await showAnswer(spec, checked, this.source)).lines
  }

  /** Checks every step completely. `onWait` as for `check`. */
  async checkAll(onWait?: JudgeOptions['onWait']): Promise<StepOutcome[]> {
    return (await judge(this.#open.spec, this.source, onWait ? { onWait } : {})).outcomes
  }

  rememberHint(step: string, tier: number): void {
    rememberHint(this.lab.definition.number, this.bench.cluster.name, step, tier)
  }

  /** Runs the reference solution of a step, with its output on standard output. */
  async play(step: string): Promise<StepOutcome[]> {
    return playSteps(this.#open, [findStep(this.lab.definition, step)])
  }

  /**
   * Grades every step. Returns the Markdown of the final page: score, time, open steps, and in the
   * terminal how to hand in and go on.
   */
  async finish(progress: LabProgress, where: 'terminal' | 'page' = 'terminal'): Promise<string> {
    const report = await gradeLab(this.#open)
    const uncounted = this.#open.spec.steps.flatMap(({ id, needsCluster }) =>
      needsCluster ? [id] : [],
    )
    const minutes = Math.max(1, Math.round(this.workedMs() / 60_000))
    return summariseLab({ progress, report, uncounted, minutes }, where)
  }

  /** Resolves when what was to be kept is. */
  saved(): Promise<void> {
    return this.#saved
  }

  /** Milliseconds that guides of this lab were open and not paused. */
  workedMs(): number {
    return this.#workedMs + (this.#since === undefined ? 0 : Date.now() - this.#since)
  }

  get paused(): boolean {
    return this.#since === undefined
  }

  pause(paused: boolean): void {
    this.#workedMs = this.workedMs()
    this.#since = paused ? undefined : Date.now()
  }

  /**
   * Keeps in the cluster where the learner is. One write after the other; a cluster that is gone
   * keeps nothing.
   */
  save(progress: LabProgress): void {
    const { place, shown, alreadyPassed, passed } = progress
    const at = place === 'intro' ? '' : shownStepId(progress)
    const note: GuideNote = {
      at,
      workedMs: this.workedMs(),
      shown: [...shown],
      held: [...alreadyPassed],
      passed: [...passed],
    }
    const write = () =>
      writeNotes(this.bench.client, this.lab.definition.number, {
        [NOTE_KEY]: JSON.stringify(note),
      })
    this.#saved = this.#saved.then(write).catch(() => undefined)
  }
}

/** The texts of a lab in the names of the learner's variant. */
function guideLab(lab: LabDefinition, solution: LabSolution, variant: Variant): GuideLab {
  const { intro, outro, card, sections } = readLabText(lab.folder)
  const own = (text: string) => personalise(withPaths(text, lab.folder), variant)
  const steps = lab.steps.map((definition) => {
    const none = { task: `## ${definition.title}`, seen: '', onward: '' }
    const { task, seen, onward } = sections.get(definition.id) ?? none
    return {
      definition,
      task: own(task),
      seen: own(seen),
      onward: own(onward),
      hints: definition.hints.map(own),
      solution: (solution.steps[definition.id]?.commands ?? []).map(own),
    }
  })
  return { definition: lab, intro: own(intro), outro: own(outro), card: own(card), steps }
}

/** The first line of an error, safe to show. */
export const safeReason = (error: unknown): string => plainText(reasonOf(error))
