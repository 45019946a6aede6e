import type { Difference, Verdict } from './report-schema.ts'

/** What a check found, for the learner. Everything but `expected` and `actual` has a sensible default. */
export interface FailureDetail {
  /** The node that shows it; leave it out for a fact of the API. */
  node?: string
  /** The read-only command that shows it, as the learner would type it. */
  look: string
  expected: string
  actual: string
  differences?: Difference[]
  /** Overrides the step's own reason when this very mistake has one of its own. */
  why?: string
  /** For a mistake that the check recognises: what to do about it. */
  hint?: string
  /** The command to type next, where the difference says which; the step's hints otherwise. */
  next?: string
}

/** What one round came to for one step. */
export interface StepOutcome {
  id: string
  verdict: Verdict
  waitsFor?: string[]
  reason?: string
  /** Not yet, but only because this round sends no packets: what can be seen without them is right. */
  unsent?: true
  /** Not applicable, and no other capture of this cluster could show it. */
  outOfReach?: true
  failure?: FailureDetail
  /** What the step measured, for people. */
  measured?: string[]
}

/** The step does not hold, and the learner can do something about it. */
export class Failure extends Error {
  readonly detail: FailureDetail

  constructor(detail: FailureDetail) {
    super(`expected ${detail.expected}, found ${detail.actual}`)
    this.name = 'Failure'
    this.detail = detail
  }
}

/** The step can't be asked here: it costs and earns nothing. */
export class NotApplicable extends Error {}

/** The step can't be asked of this cluster at all, at whatever moment. */
export class OutOfReach extends NotApplicable {}

/** The grader or the cluster is in trouble: the step could not be checked. */
export class Trouble extends Error {}

/** Ends a check with a failure. */
export function fail(detail: FailureDetail): never {
  throw new Failure(detail)
}

/** What a check requires; where it does not hold, the check ends with this failure. */
export function expectThat(holds: unknown, detail: FailureDetail): asserts holds {
  if (!holds) fail(detail)
}
