import type { LabBench } from './lab-bench.ts'

/** One step of a reference solution. */
export interface SolutionStep {
  /** The learner's commands; each line is in the lab's README. Empty for a step that only reads. */
  commands: string[]
  play?(bench: LabBench): Promise<void>
  /**
   * It only reads, predicts or answers: it is played on a settled cluster, and changes nothing on
   * it.
   */
  reads?: true
  /** The words that it consists of, if there are several. */
  actions?: readonly SolutionStep[]
  /** The text leaves its work to the learner: its commands need not be in the README. */
  unguided?: true
  /**
   * It does not affect the steps before it, so all of them are judged on one snapshot, taken after
   * the last.
   */
  independent?: true
  /**
   * What the text takes back once the step has passed (such a step has `moment: true`): played
   * after it was judged, before the next step.
   */
  cleanup?: SolutionStep
}
