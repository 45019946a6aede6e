import type { TestContext } from 'vitest'
import type { TestProject } from 'vitest/node'
import { selectCluster } from '../cluster/select.ts'
import { plainText } from '../host/plain-text.ts'
import type { LabSpec } from './check-context.ts'
import { gradeWith } from './grader.ts'
import { findingLines } from './learner-report.ts'
import { openSource } from './live-cluster.ts'
import type { Report, Source, StepReport, Verdict } from './report-schema.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** True in vitest's project `checks`, where a lab's spec registers its steps as tests. */
    grades?: boolean
  }
  interface TaskMeta {
    verdict?: Verdict
  }
}

/**
 * Why a step did not pass, for vitest and its reporters: the name distinguishes failures from steps
 * that could not be judged.
 */
class StepError extends Error {
  constructor(name: string, message: string) {
    super(message)
    this.name = name
    // Stack traces of the grader are not useful here.
    this.stack = `${name}: ${message}`
  }
}

const ERROR_NAMES: Partial<Record<Verdict, string>> = {
  failed: 'StepFailed',
  'not yet': 'StepNotYet',
  'could not check': 'CouldNotCheck',
}

/**
 * Registers each step of a lab as a test of vitest. The first test that runs grades the chosen
 * steps (all, or those selected by `-t`) with the code of `make check-N`: on the capture in
 * CAPTURE, else on the cluster selected by CLUSTER and NAME.
 */
export function registerSteps(spec: LabSpec, { describe, test }: typeof import('vitest')): void {
  const { lab } = spec
  describe(lab.title, () => {
    let grading: Promise<Report> | undefined
    for (const { id, title } of lab.steps)
      test(title, { timeout: 0 }, async (context) => {
        grading ??= gradeSteps(spec, chosenSteps(spec, context.task.suite?.tasks ?? []))
        const { steps } = await grading
        const step = steps.find((one) => one.id === id)
        await endTest(context, lab.number, step)
      })
  })
}

/** Ends the test of a step with its verdict. Throws StepError unless it passed. */
async function endTest(
  { task, skip, annotate }: TestContext,
  lab: number,
  step: StepReport | undefined,
): Promise<void> {
  const verdict = step?.verdict ?? 'could not check'
  task.meta.verdict = verdict
  for (const line of step?.measured ?? []) await annotate(plainText(line))
  // The step that it depends on reports the problem and fails the run.
  if (verdict === 'not applicable' || step?.waitsFor) skip(plainText(step?.reason ?? verdict))
  const name = ERROR_NAMES[verdict]
  if (name !== undefined) throw new StepError(name, failureText(lab, step))
}

/** Ids of the steps whose tests vitest is going to run. */
function chosenSteps({ lab }: LabSpec, tests: readonly { name: string; mode: string }[]): string[] {
  return lab.steps
    .filter(({ title }) => tests.some(({ name, mode }) => name === title && mode === 'run'))
    .map(({ id }) => id)
}

async function gradeSteps(spec: LabSpec, chosen: readonly string[]): Promise<Report> {
  const source = await chosenSource()
  const all = chosen.length === spec.lab.steps.length
  return gradeWith(
    spec,
    { lab: spec.lab.number, source },
    () => openSource(source),
    all ? {} : { only: chosen },
  )
}

async function chosenSource(): Promise<Source> {
  if (process.env.CAPTURE) return { kind: 'capture', folder: process.env.CAPTURE }
  const { driver, name } = await selectCluster()
  return { kind: 'cluster', driver, name }
}

function failureText(lab: number, step: StepReport | undefined): string {
  if (step?.finding) return ['', ...findingLines(lab, step.id, step.finding)].join('\n')
  return plainText(step?.reason ?? 'the step was not judged')
}

/**
 * After a run, the exit codes of `make check-N`: 2 if a step could not be checked or none was
 * judged; 1 and 0 are vitest's own.
 */
export default function watchRun({ name, vitest }: TestProject): () => void {
  return () => {
    const modules = vitest.state.getTestModules().filter(({ project }) => project.name === name)
    const verdicts = modules
      .flatMap(({ children }) => [...children.allTests()])
      .flatMap((test) => test.meta().verdict ?? [])
    if (verdicts.includes('could not check')) process.exitCode = 2
    if (verdicts.some((verdict) => verdict !== 'not applicable')) return
    process.exitCode = 2
    console.error('No step was judged: none of the chosen steps can be checked here.')
  }
}
