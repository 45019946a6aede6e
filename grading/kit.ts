import type { Check, CheckEntry, LabSpec, Observer } from './check-context.ts'
import type { GradingRequest, RoundFacts } from './grading-request.ts'
import { type Judgement, judge, type StepOutcome } from './judge.ts'
import { readLab, type StepDefinition } from './lab-definition.ts'
import { type Question, questionCheck } from './question.ts'
import { roundFacts } from './round-facts.ts'
import { openSource } from './source.ts'

/** Only in a worker of vitest (its environment variables reach child processes, too); scripts import the specs without it. */
const vitest = '__vitest_worker__' in globalThis ? await import('vitest') : undefined

declare module 'vitest' {
  interface ProvidedContext {
    grading?: GradingRequest
  }
  interface TaskMeta {
    outcome?: StepOutcome
    round?: RoundFacts
  }
}

/** The words that a lab's spec is written in. */
export interface SpecWords {
  /** What proves the step of that id in lab.yaml. */
  step(id: string, check: Check, options?: { needsCluster?: boolean }): void
  /** What is the right answer to the question of that step in lab.yaml. */
  question(id: string, ask: Question): void
  /** Takes notes of moments at every live round. */
  observe(observer: Observer): void
}

/**
 * Joins the steps of `labs/NN-name/lab.yaml` with their checks. In a grading run each step becomes one vitest test;
 * elsewhere (tests of the labs) the result is judged directly.
 * @throws Error when a step has no check, or a check no step
 */
export function defineLab(number: number, define: (words: SpecWords) => void): LabSpec {
  const lab = readLab(number)
  const checks = new Map<string, CheckEntry>()
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
    step(id, check, { needsCluster = false } = {}) {
      checks.set(id, { definition: stepOf(id, false), check, needsCluster })
    },
    question(id, ask) {
      const definition = stepOf(id, true)
      checks.set(id, { definition, check: questionCheck(number, definition, ask), needsCluster: false })
    },
    observe: (observer) => observers.push(observer),
  })
  const unproven = lab.steps.find((step) => !checks.has(step.id))
  if (unproven) throw new Error(`Step "${unproven.id}" of labs/${lab.folder}/lab.yaml has no check.`)
  const spec = { lab, checks, observers }
  const request = vitest?.inject('grading')
  if (vitest && request) registerTests(spec, request, vitest)
  return spec
}

function registerTests(spec: LabSpec, request: GradingRequest, { describe, test }: typeof import('vitest')): void {
  let judged: Promise<Judgement> | undefined
  const steps = spec.lab.steps.filter((step) => request.step === undefined || step.id === request.step)
  describe(spec.lab.title, () => {
    for (const step of steps) {
      test(step.title, { timeout: 0 }, async ({ task, skip }) => {
        judged ??= openSource(request.source).then((source) =>
          judge(spec, source, { only: request.step === undefined ? undefined : [request.step] }),
        )
        const { outcomes, snapshot } = await judged
        const outcome = outcomes.find(({ id }) => id === step.id)
        if (!outcome) throw new Error(`step "${step.id}" was not judged`)
        task.meta.outcome = outcome
        task.meta.round = roundFacts(snapshot)
        if (outcome.verdict === 'failed')
          throw new Error(`expected ${outcome.failure?.expected}, found ${outcome.failure?.actual}`)
        if (outcome.verdict !== 'passed') skip(outcome.reason)
      })
    }
  })
}
