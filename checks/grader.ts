import { join, resolve } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { projectRoot } from '../cluster/layout.ts'
import { keepEvidence } from './evidence.ts'
import type { GradingRequest } from './grading-request.ts'
import { findStep, readLab } from './lab-definition.ts'
import { buildReport } from './report.ts'
import type { Report } from './report-schema.ts'

/**
 * Grades a lab once, as a vitest run of `checks/NN-name.check.ts`, and keeps the evidence of what failed. Nothing is
 * printed. Throws only when lab or step do not exist; trouble is in the report.
 */
export async function grade(request: GradingRequest): Promise<Report> {
  const lab = readLab(request.lab)
  if (request.step !== undefined) findStep(lab, request.step)
  const began = performance.now()
  const run = await runSpec(`checks/${lab.folder}.check.ts`, absolute(request))
  const report = buildReport(lab, request, run, (performance.now() - began) / 1000)
  return keepEvidence(report)
}

const absolute = (request: GradingRequest): GradingRequest =>
  request.source.kind === 'capture'
    ? { ...request, source: { kind: 'capture', folder: resolve(request.source.folder) } }
    : request

/** What vitest brought back: the tests of the one module, and what went wrong outside of them. */
export interface SpecRun {
  modules: readonly TestModule[]
  errors: string[]
}

async function runSpec(file: string, request: GradingRequest): Promise<SpecRun> {
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
      reporters: [collector],
      pool: 'threads',
      maxWorkers: 1,
      isolate: false,
      watch: false,
      passWithNoTests: true,
      dangerouslyIgnoreUnhandledErrors: true,
    },
    { logLevel: 'silent' },
  )
  const modules = vitest.state.getTestModules()
  await vitest.close()
  process.exitCode = exitCode
  return { modules, errors }
}
