import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import type { TestProject } from 'vitest/node'
import { readLab } from '../../grading/lab-definition.ts'
import type { Verdict } from '../../grading/report-schema.ts'
import watchRun from '../../grading/steps-as-tests.ts'
import { projectRoot } from '../../host/layout.ts'
import { kindCapture } from './solved-capture.ts'

const SPEC = 'checks/02-ipvs.check.ts'
const CAPTURE = kindCapture('ipvs-kernel-3-flushed-and-used')
const titleOf = (id: string) => readLab(2).steps.find((step) => step.id === id)?.title ?? ''

/**
 * Runs vitest as its user does: as a process of its own, that knows nothing of the vitest that runs
 * this test.
 */
function vitest(
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; out: string }> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|TEST$|NODE_ENV$|DEV$|PROD$|SSR$)/.test(name),
  )
  const program = join(projectRoot, 'node_modules/vitest/vitest.mjs')
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, ...args],
      {
        cwd: projectRoot,
        env: { ...Object.fromEntries(inherited), NO_COLOR: '1', ...env },
        maxBuffer: 16 * 1024 * 1024,
      },
      (error, stdout, stderr) =>
        resolve({
          code: typeof error?.code === 'number' ? error.code : 0,
          out: `${stdout}${stderr}`,
        }),
    )
  })
}

interface TestResult {
  title: string
  status: string
  failureMessages: string[]
}

/** One run's results by vitest's JSON reporter. */
async function results(args: string[], env: Record<string, string>) {
  const { code, out } = await vitest(['run', SPEC, '--reporter=json', ...args], env)
  const json = JSON.parse(out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)) as {
    testResults: { assertionResults: TestResult[] }[]
  }
  const tests = json.testResults.flatMap(({ assertionResults }) => assertionResults)
  return { code, out, of: (id: string) => tests.find(({ title }) => title === titleOf(id)), tests }
}

describe('npx vitest run checks/…', () => {
  test('judges a capture, one test for each step, with the verdicts and messages of make check-2', async () => {
    const { code, of, tests } = await results([], { CAPTURE })
    expect(code).toBe(1)
    expect(tests.map(({ title }) => title)).toEqual(readLab(2).steps.map(({ title }) => title))
    expect(of('sets')?.status).toBe('passed')
    expect(of('conntrack')?.status).toBe('skipped')
    expect(of('flush')?.status).toBe('failed')
    const [message = ''] = of('flush')?.failureMessages ?? []
    for (const part of [
      'StepFailed',
      'node ',
      'inspect ',
      'make exec NODE=',
      'expected ',
      'found ',
      'STALE ',
      'next ',
      'make flush-nat',
    ])
      expect(message).toContain(part)
    expect(message).not.toMatch(/^\s+at /m)
  })

  test('judges only the steps that -t selects', async () => {
    const { code, of, tests } = await results(['-t', titleOf('sets')], { CAPTURE })
    expect([code, of('sets')?.status]).toEqual([0, 'passed'])
    expect(tests.filter(({ status }) => status === 'passed')).toHaveLength(1)
  })

  test('distinguishes steps that could not be checked from failed ones by exit code 2 and the type of the error', async () => {
    const nowhere = { NAME: 'not-there', CLUSTER: 'embedded' }
    const { code, out } = await vitest(
      ['run', SPEC, '-t', titleOf('sets'), '--reporter=junit'],
      nowhere,
    )
    expect(code).toBe(2)
    expect(out).toMatch(/<failure message="The cluster [^>]*make up[^>]*" type="CouldNotCheck">/)
  })

  test('grades only when a check is named; a run of the tests does not read a cluster', async () => {
    const { out } = await vitest(['list', '--filesOnly'])
    expect(out).toContain('test/grading/judge.test.ts')
    expect(out).not.toContain('.check.ts')
  })
})

test.each<[Verdict[], number | undefined]>([
  [['passed', 'not applicable'], undefined],
  [['passed', 'could not check'], 2],
  [['not applicable'], 2],
  [[], 2],
])(
  'a run with the verdicts %j ends with the exit code %s of the checks, or else that of vitest',
  (verdicts, exitCode) => {
    const tests = verdicts.map((verdict) => ({ meta: () => ({ verdict }) }))
    const modules = [{ project: { name: 'checks' }, children: { allTests: () => tests } }]
    const project = { name: 'checks', vitest: { state: { getTestModules: () => modules } } }
    const before = process.exitCode
    const error = vi.spyOn(console, 'error').mockReturnValue()
    try {
      process.exitCode = undefined
      watchRun(project as unknown as TestProject)()
      expect(process.exitCode).toBe(exitCode)
      expect(error).toHaveBeenCalledTimes(
        verdicts.some((verdict) => verdict !== 'not applicable') ? 0 : 1,
      )
    } finally {
      process.exitCode = before
      error.mockRestore()
    }
  },
)
