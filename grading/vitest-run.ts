import { join } from 'node:path'
import { Writable } from 'node:stream'
import type { Reporter, TestModule } from 'vitest/node'
import { projectRoot } from '../host/layout.ts'
import { keepEvidence } from './evidence.ts'
import { absolute } from './grader.ts'
import type { GradingRequest, RoundFacts } from './grading-request.ts'
import type { StepOutcome } from './judge.ts'
import { findStep, readLab } from './lab-definition.ts'
import { reportOf } from './report.ts'
import type { Report } from './report-schema.ts'

/**
 * Grades a lab as a vitest run of its spec, one test per step, and lets vitest write JUnit XML: for systems that collect
 * test results. The verdicts are those of `grade`; starting vitest takes about a second more.
 */
export async function gradeInVitest(request: GradingRequest, junitFile: string): Promise<Report> {
  const lab = readLab(request.lab)
  if (request.step !== undefined) findStep(lab, request.step)
  const began = performance.now()
  const run = await runSpec(`checks/${lab.folder}.check.ts`, absolute(request), junitFile)
  const { outcomes, facts, trouble } = readRun(run)
  return keepEvidence(reportOf(lab, request, outcomes, { facts, seconds: (performance.now() - began) / 1000, trouble }))
}

interface SpecRun {
  modules: readonly TestModule[]
  errors: string[]
}

async function runSpec(file: string, request: GradingRequest, junitFile: string): Promise<SpecRun> {
  const { startVitest } = await import('vitest/node')
  const errors: string[] = []
  const collector: Reporter = {
    onTestRunEnd(_modules, unhandled) {
      errors.push(...unhandled.map((error) => error.message))
    },
  }
  const exitCode = process.exitCode
  const vitest = await startVitest(
    'test',
    [join(projectRoot, file)],
    {
      config: false,
      root: projectRoot,
      include: ['checks/*.check.ts'],
      provide: { grading: request },
      reporters: [collector, ['junit', { suiteName: `lab ${request.lab}` }]],
      outputFile: { junit: junitFile },
      pool: 'threads',
      maxWorkers: 1,
      isolate: false,
      watch: false,
      passWithNoTests: true,
      dangerouslyIgnoreUnhandledErrors: true,
    },
    { logLevel: 'silent' },
    // Standard output belongs to the report.
    { stdout: new Silence(), stderr: new Silence() },
  )
  const modules = vitest.state.getTestModules()
  await vitest.close()
  process.exitCode = exitCode
  return { modules, errors }
}

/** What the run says about each step. A step without an outcome is left out: the report then calls it unchecked. */
function readRun({ modules, errors }: SpecRun): { outcomes: StepOutcome[]; facts: RoundFacts; trouble?: string } {
  const outcomes: StepOutcome[] = []
  const messages = [...errors]
  let facts: RoundFacts = {}
  for (const module of modules) {
    messages.push(...module.errors().map((error) => error.message))
    for (const test of module.children.allTests()) {
      const { outcome, round } = test.meta()
      if (outcome) outcomes.push(outcome)
      else messages.push(...(test.result().errors ?? []).map((error) => error.message))
      facts = round ?? facts
    }
  }
  const trouble = messages[0]?.split('\n')[0]
  return { outcomes, facts, ...(trouble === undefined ? {} : { trouble }) }
}

/** Swallows what vitest would say on a terminal. */
class Silence extends Writable {
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done()
  }
}
