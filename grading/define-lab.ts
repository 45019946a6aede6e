import {
  type Check,
  type CheckedStep,
  type LabSpec,
  type LiveContext,
  type Observer,
  onCluster,
} from './check-context.ts'
import { readLab, type StepDefinition } from './lab-definition.ts'
import { type Question, questionCheck } from './question.ts'
import { registerSteps } from './steps-as-tests.ts'

/** Only in a worker of vitest (its environment variables reach child processes, too); scripts import the specs without it. */
const vitest = '__vitest_worker__' in globalThis ? await import('vitest') : undefined

/** The functions of a lab's spec. */
export interface SpecFunctions {
  /** Defines the check of the step with that id in lab.yaml. */
  step(id: string, check: Check): void
  /** The same for a step that consists of real requests: not applicable to a capture. */
  liveStep(id: string, check: Check<LiveContext>): void
  /** Defines the correct answer to the question of that step in lab.yaml, and the deduction from its points. */
  question(id: string, ask: Question, cost?: CheckedStep['cost']): void
  /** Registers an observer that runs at every live round. */
  observe(observer: Observer): void
}

/**
 * Joins the steps of `labs/NN-name/lab.yaml` with their checks. In vitest's project `checks` each step becomes one test;
 * elsewhere (`make check-N`, tests of the labs) the result is judged directly.
 * @throws Error when a step has no check, or a check no step
 */
export function defineLab(number: number, define: (words: SpecFunctions) => void): LabSpec {
  const lab = readLab(number)
  const checks = new Map<string, Pick<CheckedStep, 'check' | 'needsCluster' | 'cost'>>()
  const observers: Observer[] = []
  const stepOf = (id: string, asks: boolean): StepDefinition => {
    const definition = lab.steps.find((step) => step.id === id)
    if (!definition) throw new Error(`The check "${id}" has no step in labs/${lab.folder}/lab.yaml.`)
    if (checks.has(id)) throw new Error(`There are two checks for step "${id}" of lab ${number}.`)
    if ((definition.question !== undefined) === asks) return definition
    const fault = asks ? 'has no question in lab.yaml' : 'asks a question, so its check must be a question(…)'
    throw new Error(`Step "${id}" of lab ${number} ${fault}.`)
  }
  define({
    step(id, check) {
      stepOf(id, false)
      checks.set(id, { check, needsCluster: false })
    },
    liveStep(id, check) {
      stepOf(id, false)
      checks.set(id, { check: onCluster(check), needsCluster: true })
    },
    question(id, ask, cost) {
      checks.set(id, { check: questionCheck(number, stepOf(id, true), ask), needsCluster: false, cost })
    },
    observe: (observer) => observers.push(observer),
  })
  const steps = lab.steps.map((step) => {
    const check = checks.get(step.id)
    if (!check) throw new Error(`Step "${step.id}" of labs/${lab.folder}/lab.yaml has no check.`)
    return { ...step, ...check }
  })
  const spec = { lab, steps, observers }
  if (vitest?.inject('grades')) registerSteps(spec, vitest)
  return spec
}
