import type { DifferenceText } from '../dataplane/compare.ts'
import { shellWord } from '../host/shell-word.ts'
import type { StepLearning, Verdict } from './report-schema.ts'

/** A check's failure, for the learner. Everything except `expected` and `actual` has a default. */
export interface FailureDetail {
  /** The node concerned; absent for a fact of the API. */
  node?: string
  /** A read-only command to inspect it. */
  inspect: string
  expected: string
  actual: string
  differences?: DifferenceText[]
  /** Overrides the step's own reason for this specific mistake. */
  why?: string
  /** The advice for a mistake that the check recognises. */
  hint?: string
  /** The next command, if the difference determines it; default: the step's hints. */
  next?: string
}

/** The outcome of one step in one round. */
export interface StepOutcome {
  id: string
  verdict: Verdict
  waitsFor?: string[]
  reason?: string
  /** Not yet passed, only because this round sends no packets: all other conditions are met. */
  unsent?: true
  /**
   * Not yet passed, only because the learner has not predicted or answered: the state that the step
   * is about holds.
   */
  unanswered?: 'prediction' | 'answer'
  /** What the learner predicted and answered; absent for a step that does neither. */
  learning?: StepLearning
  /** Not applicable at any moment of this cluster. */
  outOfReach?: true
  /** Not applicable to a capture of another moment than the one that the step is about. */
  pastMoment?: true
  failure?: FailureDetail
  cost?: number
  measured?: string[]
}

/** The step failed, and the learner can solve it. */
export class Failure extends Error {
  readonly detail: FailureDetail

  constructor(detail: FailureDetail) {
    super(`expected ${detail.expected}, found ${detail.actual}`)
    this.name = 'Failure'
    this.detail = detail
  }
}

/** The state of the step holds, and its prediction or answer is missing. */
export class Unanswered extends Failure {
  readonly missing: 'prediction' | 'answer'

  constructor(missing: 'prediction' | 'answer', detail: FailureDetail) {
    super(detail)
    this.missing = missing
  }
}

/** The step can't be judged on this input and has no effect on the score. */
export class NotApplicable extends Error {}

/** The step can't be judged on this cluster at any moment. */
export class OutOfReach extends NotApplicable {}

/** The step is about a temporary state, which this capture does not show: another capture may. */
export class PastMoment extends NotApplicable {}

export { Trouble } from '../host/trouble.ts'

/** Ends a check with a failure. */
export function fail(detail: FailureDetail): never {
  throw new Failure(detail)
}

/** Asserts a condition; if it is false, the check ends with this failure. */
export function expectThat(holds: unknown, detail: FailureDetail): asserts holds {
  if (!holds) fail(detail)
}

/** The texts of an assertion that may know itself what there is instead. */
export type Expected = Omit<FailureDetail, 'actual'> & Partial<Pick<FailureDetail, 'actual'>>

/** A value was found. Returns it. */
export function expectFound<Found>(found: Found | undefined, details: Expected): Found {
  expectThat(found !== undefined, { actual: 'none', ...details })
  return found
}

/**
 * The learner's command for running something on a node, as a shell and then make read it: in make,
 * `$$` is a dollar sign.
 */
export function onNode(node: string, command: string): string {
  return `make exec NODE=${node} CMD=${shellWord(command.replaceAll('$', '$$$$'))}`
}

/**
 * A rule as iptables-save prints it, in a command. In its double quotes, a shell would replace a
 * dollar sign and a backtick, and keep the backslash of an escaped apostrophe.
 */
export function ruleInShell(rule: string): string {
  return rule.replace(/\\(.)|[$`]/g, (found, escaped) => {
    if (escaped === undefined) return `\\${found}`
    return escaped === "'" ? escaped : found
  })
}

/** Fails if the output of a read-only command on a node differs from the expected state. */
export function expectOnNode(
  node: string,
  command: string,
  holds: unknown,
  details: Omit<FailureDetail, 'node' | 'inspect'>,
): asserts holds {
  expectThat(holds, { node, inspect: onNode(node, command), ...details })
}

/** Texts of a failure, which replace the assertion's own. */
export type FailureText = Partial<Omit<FailureDetail, 'node'>>
