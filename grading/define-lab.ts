import { askingCheck } from './asking-check.ts'
import {
  type Check,
  type CheckContext,
  type CheckedStep,
  type LabSpec,
  type LiveContext,
  type Observer,
  onCluster,
  type Question,
  type StepQuestions,
} from './check-context.ts'
import { requireKernel } from './kernel-features.ts'
import { type LabDefinition, readLab, type StepDefinition } from './lab-definition.ts'
import { learningCost, learningOf, understandingPoints } from './learning-notes.ts'
import { questionCheck } from './question.ts'
import { registerSteps } from './steps-as-tests.ts'

/**
 * Only in a worker of vitest (its environment variables reach child processes, too); scripts import
 * the specs without it.
 */
const vitest = '__vitest_worker__' in globalThis ? await import('vitest') : undefined

/** The functions of a lab's spec. */
export interface SpecFunctions {
  /**
   * Defines the check of the step with that id in lab.yaml, and the truth of what is predicted and
   * asked beside its state.
   */
  step(id: string, check: Check, asked?: StepQuestions): void
  /** The same for a step that consists of real requests: not applicable to a capture. */
  liveStep(id: string, check: Check<LiveContext>, asked?: StepQuestions): void
  /**
   * Defines the correct answer of a step that only asks, and a further deduction from its points.
   */
  question(id: string, ask: Question, cost?: CheckedStep['cost']): void
  /** Registers an observer that runs at every live round. */
  observe(observer: Observer): void
}

/** What the spec defines for a step. */
type Defined = Pick<CheckedStep, 'check' | 'needsCluster' | 'onlyAsks' | 'asked' | 'cost'>

/**
 * Joins the steps of `labs/NN-name/lab.yaml` with their checks. In vitest's project `checks` each
 * step becomes one test; elsewhere (`make check-N`, tests of the labs) the result is judged
 * directly.
 * @throws Error when a step has no check, or a check no step
 */
export function defineLab(number: number, define: (functions: SpecFunctions) => void): LabSpec {
  const lab = readLab(number)
  const checks = new Map<string, Defined>()
  const observers: Observer[] = []
  const add = (id: string, defined: Defined) => {
    const definition = lab.steps.find((step) => step.id === id)
    if (!definition)
      throw new Error(`The check "${id}" has no step in labs/${lab.folder}/lab.yaml.`)
    if (checks.has(id)) throw new Error(`There are two checks for step "${id}" of lab ${number}.`)
    expectSameQuestions(lab, definition, defined)
    checks.set(id, defined)
  }
  define({
    step(id, check, asked = {}) {
      add(id, { check, asked, needsCluster: false, onlyAsks: false })
    },
    liveStep(id, check, asked = {}) {
      add(id, { check: onCluster(check), asked, needsCluster: true, onlyAsks: false })
    },
    question(id, ask, cost) {
      add(id, {
        check: () => undefined,
        asked: { question: ask },
        needsCluster: false,
        onlyAsks: true,
        cost,
      })
    },
    observe: (observer) => observers.push(observer),
  })
  const steps = lab.steps.map((step) => {
    const defined = checks.get(step.id)
    if (!defined) throw new Error(`Step "${step.id}" of labs/${lab.folder}/lab.yaml has no check.`)
    return checkedStep(number, step, defined)
  })
  const spec = { lab, steps, observers }
  if (vitest?.inject('grades')) registerSteps(spec, vitest)
  return spec
}

/** lab.yaml and the spec must predict and ask at the same steps. */
function expectSameQuestions(
  { number }: LabDefinition,
  step: StepDefinition,
  { asked, onlyAsks }: Defined,
): void {
  const place = `Step "${step.id}" of lab ${number}`
  for (const name of ['predict', 'question'] as const) {
    if ((step[name] !== undefined) === (asked[name] !== undefined)) continue
    if (step[name] === undefined) throw new Error(`${place} has no ${name} in lab.yaml.`)
    throw new Error(
      `${place} has a ${name} in lab.yaml, so its check must have { ${name}: … }, or be a question(…).`,
    )
  }
  if (onlyAsks && step.predict)
    throw new Error(`${place} only asks, so there is nothing to predict.`)
}

/** A step with its check around the state, its questions and what they cost. */
export function checkedStep(lab: number, step: StepDefinition, defined: Defined): CheckedStep {
  const { onlyAsks, cost } = defined
  const onKernel = whereKernelHas(step.kernel)
  const check = onKernel(defined.check)
  const asked = {
    ...defined.asked,
    ...(defined.asked.predict && { predict: onKernel(defined.asked.predict) }),
    ...(defined.asked.question && { question: onKernel(defined.asked.question) }),
  }
  const understanding = understandingPoints(step, onlyAsks)
  const asking = { lab, step, understanding }
  const { question, predict, evidence } = asked
  const asksBeside = predict ?? question ?? evidence
  const deducted = (context: CheckContext) => {
    const learnt =
      onlyAsks || context.asks ? learningCost(understanding, learningOf(step.id, context.notes)) : 0
    return learnt + (cost?.(context) ?? 0)
  }
  return {
    ...step,
    ...defined,
    asked,
    check:
      onlyAsks && question
        ? questionCheck(asking, question)
        : asksBeside
          ? askingCheck(asking, check, asked)
          : check,
    understanding,
    // An answer remains correct when the cluster changes later.
    moment: step.moment || onlyAsks,
    cost: asksBeside || cost ? deducted : undefined,
  }
}

/**
 * Puts the kernel features that a step needs before its check, or before the truth of what it asks.
 */
const whereKernelHas =
  (needs: StepDefinition['kernel']) =>
  <Result>(judge: (context: CheckContext) => Result | Promise<Result>) =>
    needs.length === 0
      ? judge
      : async (context: CheckContext): Promise<Result> => {
          await requireKernel(needs, context)
          return judge(context)
        }
