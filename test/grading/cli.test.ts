import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { contextFolder } from '../../cluster/context/own-objects.ts'
import { shownHints } from '../../course/hints.ts'
import { evidenceFolder } from '../../grading/grader.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { reportSchema } from '../../grading/report-schema.ts'
import { projectRoot } from '../../host/layout.ts'
import { FORMAT_NAMES } from '../../instructors/class/formats/formats.ts'
import { kindCapture } from './solved-capture.ts'

const run = (script: string, ...args: string[]) => runWith({ CLUSTER: 'embedded' }, script, ...args)

function runWith(
  own: Record<string, string>,
  script: string,
  ...args: string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...process.env, NAME: 'not-there', NO_COLOR: '1', ...own }
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['scripts/start.mjs', `scripts/${script}`, ...args],
      { cwd: projectRoot, env },
      (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
      },
    )
  })
}

const capture = kindCapture('ipvs-kernel-3-flushed-and-used')

describe('check.ts', () => {
  test('exits 1 with an open step; its JSON follows the schema, and JUnit has every step', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'junit-'))
    const file = join(folder, 'report.xml')
    const { code, stdout } = await run(
      'check.ts',
      '--lab',
      '2',
      '--capture',
      capture,
      '--json',
      '--junit',
      file,
    )
    const report = reportSchema.parse(JSON.parse(stdout))
    expect([code, report.exitCode]).toEqual([1, 1])
    expect(report.steps.find(({ id }) => id === 'flush')?.verdict).toBe('failed')
    expect(readFileSync(file, 'utf8')).toMatch(
      new RegExp(`<testsuite .*tests="${readLab(2).steps.length}"`),
    )
    rmSync(folder, { recursive: true })
  })

  test('--help lists every format', async () => {
    const { code, stdout } = await run('check.ts', '--help')
    expect(code).toBe(0)
    expect(stdout).toContain(`another result file: ${FORMAT_NAMES.join(', ')}\n`)
  })

  test('exits 0 when the selected step passes', async () => {
    const { code, stdout } = await run(
      'check.ts',
      '--lab',
      '2',
      '--capture',
      capture,
      '--step',
      'sets',
    )
    expect(code).toBe(0)
    expect(stdout).toContain('✓ sets')
    expect(stdout).not.toContain('\u001b')
  })

  test('exits 2 for a lab, step or folder that does not exist, and lists the existing ones', async () => {
    const unknownStep = await run('check.ts', '--lab', '2', '--capture', capture, '--step', 'nope')
    expect([unknownStep.code, unknownStep.stderr]).toEqual([
      2,
      expect.stringMatching(/its steps are web, .*iptables-list/),
    ])
    const unknownLab = await run('check.ts', '--lab', '77', '--capture', capture)
    expect([unknownLab.code, unknownLab.stderr]).toEqual([
      2,
      expect.stringContaining('There is no lab "77"'),
    ])
    const noCapture = await run('check.ts', '--lab', '2', '--capture', '/nowhere')
    expect([noCapture.code, noCapture.stdout]).toEqual([
      2,
      expect.stringContaining('"/nowhere" is missing'),
    ])
    const twoLabs = await run('grade.ts', '2', '3')
    expect([twoLabs.code, twoLabs.stderr]).toEqual([
      2,
      expect.stringContaining('"3" is one argument too many: --help'),
    ])
    for (const { stderr, stdout } of [unknownStep, unknownLab, noCapture, twoLabs])
      expect(stderr + stdout).not.toMatch(/^\s+at /m)
  })
})

test('test-grader.ts tries no mutation, and reports no success, for a share that is no number', async () => {
  for (const every of ['x', '0', '1.5']) {
    const { code, stdout, stderr } = await run('test-grader.ts', '--every', every)
    expect([code, stdout, stderr]).toEqual([
      2,
      '',
      expect.stringContaining(`--every "${every}" is not a whole number`),
    ])
  }
})

describe('grade.ts and hint.ts without a cluster', () => {
  test('could not check: exit code 2, no points lost, and the next command', async () => {
    const { code, stdout } = await run('grade.ts', '2', '--json')
    const report = reportSchema.parse(JSON.parse(stdout))
    expect(code).toBe(2)
    expect(report).toMatchObject({
      score: 0,
      maxScore: 0,
      trouble: expect.stringContaining('make up'),
    })
  })

  test('hints become more specific with each tier', async () => {
    const first = await run('hint.ts', '2', '--step', 'flush', '--tier', '1')
    const last = await run('hint.ts', '2', '--step', 'flush', '--tier', '3')
    expect([first.code, last.code]).toEqual([0, 0])
    expect(first.stdout).not.toContain('make flush-nat')
    expect(last.stdout).toContain('make flush-nat')
    expect((await run('hint.ts', '2', '--step', 'flush', '--tier', '9')).code).toBe(2)
  })

  test('without a cluster, a hint of the first open step says which command needs none', async () => {
    const { stderr } = await run('hint.ts', '2')
    expect(stderr).toContain('make hint LAB=2 STEP=web')
  })

  test('a hint is shown also if it cannot be recorded', async () => {
    const NAME = 'hints-unwritable'
    const folder = join(projectRoot, evidenceFolder(2, NAME), '..')
    mkdirSync(join(folder, '..'), { recursive: true })
    writeFileSync(folder, '')
    try {
      const shown = await runWith({ CLUSTER: 'embedded', NAME }, 'hint.ts', '2', '--step', 'flush')
      expect(shown).toMatchObject({
        code: 0,
        stderr: '',
        stdout: expect.stringContaining('Hint 1 of'),
      })
    } finally {
      rmSync(folder)
    }
  })

  test('a hint of a named step needs no cluster, so the one that is chosen may be unusable', async () => {
    const env = { KUBECONFIG: '/nowhere', CLUSTER: 'context:none', NAME: 'hints-of-none' }
    const first = ['hint.ts', '2', '--step', 'flush', '--tier', '1'] as const
    try {
      expect(await runWith(env, ...first)).toMatchObject({
        code: 0,
        stderr: '',
        stdout: (await run(...first)).stdout,
      })
      expect(await runWith(env, 'hint.ts', '2')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('"/nowhere"'),
      })
      const noLab = await runWith(env, 'hint.ts', '77', '--step', 'flush')
      expect(noLab).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('There is no lab "77"'),
      })
    } finally {
      rmSync(join(projectRoot, evidenceFolder(2, env.NAME), '..'), { recursive: true, force: true })
    }
  })

  test('a hint is remembered for the cluster of the context, which a guide of the lab and its reset read', async () => {
    const name = 'hints-of-a-context'
    const folder = mkdtempSync(join(tmpdir(), 'context-'))
    const KUBECONFIG = join(folder, 'config')
    const config = {
      clusters: [{ name: 'one', cluster: { server: 'http://127.0.0.1:1' } }],
      contexts: [{ name, context: { cluster: 'one', user: 'one' } }],
      users: [{ name: 'one', user: {} }],
    }
    writeFileSync(KUBECONFIG, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...config }))
    try {
      const env = { KUBECONFIG, CLUSTER: `context:${name}` }
      const { code, stderr } = await runWith(env, 'hint.ts', '2', '--step', 'flush')
      expect([code, stderr]).toEqual([0, ''])
      expect(shownHints(2, name)).toEqual(new Map([['flush', 1]]))
    } finally {
      for (const made of [
        join(projectRoot, evidenceFolder(2, name), '..'),
        contextFolder(name),
        folder,
      ])
        rmSync(made, { recursive: true, force: true })
    }
  })
})
