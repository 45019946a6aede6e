import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { fail, type StepOutcome } from '../../grading/failure.ts'
import { gradeWith, keepEvidence, loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { findingLines, learnerReport, outcomeLine } from '../../grading/learner-report.ts'
import { reportOf } from '../../grading/report.ts'
import { type Report, reportSchema } from '../../grading/report-schema.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { emptySnapshot, fakeLab } from './fake-lab.ts'
import { flushedCapture } from './solved-capture.ts'

const ESCAPE = '\u001b[2J\u001b]0;owned\u0007'

async function failingReport(differences = 12): Promise<Report> {
  const lines = Array.from(
    { length: differences },
    (_, index) => `-A CHAIN rule ${index} ${ESCAPE}`,
  )
  const spec = fakeLab({
    good: { check: () => undefined },
    bad: {
      check: () =>
        fail({
          node: 'worker',
          inspect: 'iptables-save',
          expected: 'nothing odd',
          actual: `a comment with ${ESCAPE} in it`,
          differences: lines.map((line) => ({ kind: 'stale', text: line, actual: line })),
        }),
    },
    after: { check: () => undefined, needs: ['bad'] },
  })
  const outcomes = await judgeRound(spec, emptySnapshot(), undefined)
  const request = { lab: 99, source: { kind: 'capture', folder: 'x' } } as const
  const report = reportOf(spec.lab, request, outcomes, { seconds: 1 })
  return { ...report, versions: { ...report.versions, mode: 'ipvs' } }
}

describe('evidence', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'evidence-'))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  test('a failing step has a file with the whole finding until it passes', async () => {
    const report = keepEvidence(await failingReport(), root)
    const file = report.steps[1]?.finding?.evidence ?? ''
    expect(file).toBe('.evidence/lab-99/bad.txt')
    const text = readFileSync(join(root, file), 'utf8')
    expect(text.match(/^STALE/gm)).toHaveLength(12)
    expect(text).not.toContain('\u001b')
    const passed = report.steps.map(({ finding: _finding, ...step }) => ({
      ...step,
      verdict: 'passed' as const,
    }))
    keepEvidence({ ...report, steps: passed }, root)
    expect(readdirSync(join(root, '.evidence/lab-99'))).toEqual([])
  })

  test('a report whose evidence cannot be written is the same without it', async () => {
    writeFileSync(join(root, '.evidence'), 'a file, not a folder')
    const report = await failingReport()
    expect(keepEvidence(report, root)).toEqual(report)
  })

  test('a step that was not judged keeps its evidence', async () => {
    const report = keepEvidence(await failingReport(), root)
    const unjudged = report.steps.map(({ finding: _finding, ...step }) => ({
      ...step,
      verdict: 'could not check' as const,
    }))
    keepEvidence({ ...report, steps: unjudged }, root)
    expect(readdirSync(join(root, '.evidence/lab-99'))).toEqual(['bad.txt'])
  })
})

test('a report of version 0.1, which has `look` for `inspect`, is read', async () => {
  const report = await failingReport(1)
  const old = JSON.parse(JSON.stringify(report).replaceAll('"inspect":', '"look":'))
  expect(JSON.stringify(old)).toContain('"look":"iptables-save"')
  expect(reportSchema.parse(old)).toEqual(JSON.parse(JSON.stringify(report)))
})

describe('the report as text', () => {
  test('shows the first failure in full, marked lines, the score and the next command, without control characters', async () => {
    const text = learnerReport(await failingReport())
    for (const part of [
      '✓ good',
      '✗ bad',
      '– after',
      'waits for: bad',
      'Score: 2/6 points',
      'make hint LAB=99 STEP=bad',
    ])
      expect(text).toContain(part)
    expect(text.match(/STALE/g)).toHaveLength(8)
    expect(text).toContain('and 4 more')
    expect(text).toContain('\\x1b')
    expect(text.replace(/\u001b\[\d+m/g, '')).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
  })

  test('an object that cannot be read is left out of the prediction, and the report names it with the reason', async () => {
    const capture = flushedCapture()
    const odd = {
      kind: 'Service',
      metadata: { name: 'odd', namespace: 'shop' },
      spec: { clusterIP: '10.96.0.999' },
    }
    const items = [...capture.objects.items, odd]
    const lab = await loadSpec(readLab(2))
    const request = { lab: 2, source: { kind: 'capture', folder: 'x' } } as const
    const open = () => ({
      snapshot: async () => new Snapshot({ ...capture, objects: { ...capture.objects, items } }),
    })
    const report = await gradeWith(lab, request, open)
    expect(report.steps.find(({ id }) => id === 'sets')?.verdict).toBe('passed')
    expect(report.notes).toHaveLength(1)
    expect(report.notes?.[0]).toMatch(
      /^Service shop\/odd was left out: spec\.clusterIP\S* "10\.96\.0\.999" /,
    )
    expect(learnerReport(report)).toContain('Note: Service shop/odd was left out')
    const healthy = await gradeWith(lab, request, () => ({
      snapshot: async () => new Snapshot(capture),
    }))
    expect(healthy.notes).toBeUndefined()
  })

  /** Runs `look` as on a terminal of that many columns. */
  async function atWidth(columns: number, look: () => Promise<void>): Promise<void> {
    const was = Object.getOwnPropertyDescriptor(process.stdout, 'columns') ?? {
      value: undefined,
      configurable: true,
    }
    Object.defineProperty(process.stdout, 'columns', { value: columns, configurable: true })
    try {
      await look()
    } finally {
      Object.defineProperty(process.stdout, 'columns', was)
    }
  }

  test.each([
    [40, 40],
    [60, 60],
    [0, 114],
  ])('the sentences of a finding fit a terminal of %i columns (0: none)', (columns, widest) =>
    atWidth(columns, async () => {
      const { steps } = await failingReport()
      const finding = steps.flatMap((step) => step.finding ?? [])[0]
      if (!finding) throw new Error('no step has failed')
      const lines = findingLines(99, 'bad', {
        ...finding,
        differences: [],
        why: 'a word '.repeat(40).trim(),
      })
      const widths = lines.filter((line) => line.includes('a word')).map((line) => line.length)
      expect(Math.max(...widths)).toBeLessThanOrEqual(widest)
      expect(Math.max(...widths)).toBeGreaterThan(widest - 7)
    }),
  )

  test.each([
    [60, 60],
    [0, 250],
  ])(
    'titles, questions and what was measured fit a terminal of %i columns (0: none)',
    (columns, widest) =>
      atWidth(columns, async () => {
        const report = await failingReport()
        const [step] = report.steps
        if (!step) throw new Error('no step')
        const long = 'a word '.repeat(30).trim()
        const asking = { ...step, verdict: 'not yet', title: long, question: long } as const
        const text = stripVTControlCharacters(
          learnerReport({ ...report, steps: [{ ...asking, measured: [long] }] }),
        )
        const widths = text
          .split('\n')
          .filter((line) => line.includes('a word'))
          .map((line) => line.length)
        expect(Math.max(...widths)).toBeLessThanOrEqual(widest)
        expect(Math.max(...widths)).toBeGreaterThan(widest - 40)
      }),
  )

  test('the line of a step that was just judged has its points without what help has cost', () => {
    const [step] = fakeLab({ a: { points: 20 } }).steps
    if (!step) throw new Error('no step')
    const line = (outcome: Partial<StepOutcome>) =>
      outcomeLine({ id: 'a', verdict: 'passed', ...outcome }, step)
    expect(line({})).toContain('passed, 20 points')
    expect(line({ cost: 5 })).toContain('passed, 15 points')
    expect(line({ verdict: 'not yet', reason: 'waits' })).toContain('not yet: waits')
  })

  test('a problem of the cluster is one sentence without a list of steps', async () => {
    const { lab } = fakeLab({ a: {} })
    const request = { lab: 99, source: { kind: 'cluster', driver: 'embedded', name: 'x' } } as const
    const text = learnerReport(
      reportOf(lab, request, [], { seconds: 0, trouble: 'The API is down.' }),
    )
    expect(text).toContain('! The API is down.')
    expect(text).not.toContain('Score')
  })
})
