import type { LabBench } from './lab-bench.ts'

/** One step of a reference solution. */
export interface SolutionStep {
  /** The learner's commands; each line is in the lab's README. Empty for a step that only reads. */
  commands: string[]
  play?(bench: LabBench): Promise<void>
  /** It does not affect the steps before it, so all of them are judged on one snapshot, taken after the last. */
  independent?: true
  /** The cleanup after the step has passed. */
  cleanup?: SolutionStep
}

/** A lab's solution.ts: every step by its id, and the reset. */
export interface LabSolution {
  steps: Record<string, SolutionStep>
  /** Comments of the rules that learners add to nodes in the lab: leaving it deletes these rules. */
  comments?: readonly string[]
  /** Removes other leftovers of the lab on machines and in the cluster that would disturb another lab. */
  leave?(bench: LabBench): Promise<void>
  /** Resets the lab to its starting state from any state; idempotent. Default: nothing of the lab and of web, in iptables mode. */
  reset?(bench: LabBench): Promise<void>
}

/** Loads `labs/NN-name/solution.ts`. */
export async function loadSolution(folder: string): Promise<LabSolution> {
  const module: { solution: LabSolution } = await import(`../labs/${folder}/solution.ts`)
  return module.solution
}
