import { describe, expect, test, vi } from 'vitest'
import { onCluster } from '../../grading/check-context.ts'
import { fail, NotApplicable, Trouble } from '../../grading/failure.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { reportOf } from '../../grading/report.ts'
import { reportSchema } from '../../grading/report-schema.ts'
import { emptySnapshot, type FakeStep, fakeLab } from './fake-lab.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const passes = () => undefined
const fails = () => fail({ inspect: 'cat it', expected: 'this', actual: 'that' })
const request = { lab: 99, source: { kind: 'capture', folder: 'x' } } as const

async function reportFor(steps: Record<string, FakeStep>, only?: string) {
  const spec = fakeLab(steps)
  const outcomes = await judgeRound(
    spec,
    emptySnapshot(),
    undefined,
    only === undefined ? undefined : [only],
  )
  const asked = only === undefined ? request : { ...request, step: only }
  return reportSchema.parse(reportOf(spec.lab, asked, outcomes, { seconds: 0.1 }))
}

const verdicts = (report: Awaited<ReturnType<typeof reportFor>>) =>
  Object.fromEntries(report.steps.map(({ id, verdict }) => [id, verdict]))

describe('verdicts', () => {
  test('each outcome of a check is one verdict', async () => {
    const report = await reportFor({
      passed: { check: passes },
      failed: { check: fails },
      moment: {
        check: () => {
          throw new NotApplicable('long ago')
        },
      },
      troubled: {
        check: () => {
          throw new Trouble('node gone')
        },
      },
      broken: {
        check: () => {
          throw new TypeError('x is not a function')
        },
      },
      live: { check: onCluster(passes) },
    })
    expect(verdicts(report)).toEqual({
      passed: 'passed',
      failed: 'failed',
      moment: 'not applicable',
      troubled: 'could not check',
      broken: 'could not check',
      live: 'not applicable',
    })
    expect(report.steps.find(({ id }) => id === 'broken')?.reason).toContain('x is not a function')
  })

  test('a failure carries inspect, expected, actual, why and a hint', async () => {
    const { steps } = await reportFor({ failed: { check: fails } })
    expect(steps[0]?.finding).toEqual({
      inspect: 'cat it',
      expected: 'this',
      actual: 'that',
      differences: [],
      why: 'Because a test says so.',
      hint: 'Look at the test.',
    })
  })

  test('steps that need a failed step wait for it instead of failing', async () => {
    const report = await reportFor({
      first: { check: fails },
      second: { check: fails, needs: ['first'] },
      third: { check: passes, needs: ['second'] },
      free: { check: passes },
    })
    expect(verdicts(report)).toEqual({
      first: 'failed',
      second: 'not yet',
      third: 'not yet',
      free: 'passed',
    })
    expect(report.steps[1]).toMatchObject({ waitsFor: ['first'], reason: 'waits for: first' })
  })

  test('steps that need a step that is not applicable are judged', async () => {
    const report = await reportFor({
      moment: {
        check: () => {
          throw new NotApplicable('long ago')
        },
      },
      after: { check: passes, needs: ['moment'] },
    })
    expect(verdicts(report).after).toBe('passed')
  })

  test('steps that need a step that could not be checked cost no points either', async () => {
    const report = await reportFor({
      first: {
        check: () => {
          throw new Trouble('node gone')
        },
      },
      second: { check: passes, needs: ['first'] },
    })
    expect(verdicts(report).second).toBe('could not check')
    expect(report).toMatchObject({ score: 0, maxScore: 0, exitCode: 2, complete: false })
  })
})

describe('score and exit code', () => {
  test('0 when every judged step passed', async () => {
    expect(await reportFor({ a: { check: passes } })).toMatchObject({
      score: 2,
      maxScore: 2,
      exitCode: 0,
      complete: true,
    })
  })

  test('1 when a step is open', async () => {
    const report = await reportFor({ a: { check: passes }, b: { check: fails, points: 5 } })
    expect(report).toMatchObject({ score: 2, maxScore: 7, exitCode: 1 })
  })

  test('a step that passed with help gives fewer points, but never less than 0', async () => {
    const report = await reportFor({
      a: { check: passes, points: 20, cost: () => 5 },
      b: { check: passes, points: 3, cost: () => 5 },
      c: { check: fails, points: 3, cost: () => 1 },
    })
    expect(report).toMatchObject({ score: 15, maxScore: 26 })
    expect(report.steps.map(({ points }) => points)).toEqual([15, 0, 0])
  })

  test('2 when a step could not be checked, even if another one failed', async () => {
    const trouble = () => {
      throw new Trouble('node gone')
    }
    const report = await reportFor({
      a: { check: passes },
      b: { check: trouble },
      c: { check: fails },
    })
    expect(report).toMatchObject({ score: 2, maxScore: 4, exitCode: 2 })
  })

  test('a run without a judged step is never a pass', async () => {
    expect(await reportFor({ live: { check: onCluster(passes) } })).toMatchObject({
      score: 0,
      exitCode: 2,
    })
    const { lab } = fakeLab({ a: { check: passes } })
    const silent = reportOf(lab, request, [], { seconds: 0 })
    expect(silent).toMatchObject({ exitCode: 2, score: 0, maxScore: 0 })
    expect(silent.steps[0]).toMatchObject({ verdict: 'could not check', points: 0 })
  })

  test('a single step is judged without the steps that it needs', async () => {
    const report = await reportFor(
      { first: { check: fails }, second: { check: passes, needs: ['first'] } },
      'second',
    )
    expect(verdicts(report)).toEqual({ second: 'passed' })
    expect(report).toMatchObject({ exitCode: 0, complete: false })
  })
})

describe('rounds', () => {
  // No check of these labs asks the cluster for anything; being there is what makes a source live.
  const live = madeLiveCluster()
  const fresh = (takenAt: number) =>
    emptySnapshot(
      [
        {
          kind: 'Service',
          metadata: { name: 'new', creationTimestamp: new Date(takenAt - 500).toISOString() },
        },
      ],
      takenAt,
    )

  test('a failed step is judged again while the cluster is changing, all steps of a round on one snapshot', async () => {
    const seen: number[] = []
    let round = 0
    const spec = fakeLab({
      a: { check: ({ snapshot }) => void seen.push(snapshot.takenAt ?? 0) },
      b: {
        check: ({ snapshot }) => {
          seen.push(snapshot.takenAt ?? 0)
          if (round < 3) fails()
        },
      },
    })
    const source = { live, snapshot: async () => fresh(++round * 10_000) }
    const { outcomes } = await judge(spec, source)
    expect(outcomes.map(({ verdict }) => verdict)).toEqual(['passed', 'passed'])
    expect(seen).toEqual([10_000, 10_000, 20_000, 20_000, 30_000, 30_000])
  })

  test('a step that still fails at the deadline while the cluster is changing is `not yet`, with the pending changes', async () => {
    const spec = fakeLab({ a: { check: passes }, b: { check: fails } })
    const source = { live, snapshot: async () => fresh(10_000) }
    const { outcomes } = await judge(spec, source, { patienceMs: 20 })
    expect(outcomes.map(({ verdict }) => verdict)).toEqual(['passed', 'not yet'])
    expect(outcomes[1]?.reason).toContain('Service new has just changed')
    expect(reportOf(spec.lab, request, outcomes, { seconds: 0 })).toMatchObject({
      exitCode: 1,
      score: 2,
    })
  })

  test('a settled cluster is read once', async () => {
    const snapshot = vi.fn(async () => emptySnapshot([], 10_000))
    const { outcomes } = await judge(fakeLab({ a: { check: fails } }), { live, snapshot })
    expect(outcomes[0]?.verdict).toBe('failed')
    expect(snapshot).toHaveBeenCalledOnce()
  })
})

describe('a machine of the cluster that stopped', () => {
  test('a failed step could not be checked, a passed step remains passed', async () => {
    const spec = fakeLab({
      passed: { check: passes },
      failed: { check: fails },
      after: { check: passes, needs: ['failed'] },
    })
    const judged = async (stopped: string[]) => {
      const live = madeLiveCluster({ stopped })
      return (await judgeRound(spec, emptySnapshot(), live)).map(
        ({ verdict, reason }) => `${verdict} ${reason ?? ''}`,
      )
    }
    expect(await judged([])).toEqual(['passed ', 'failed ', 'not yet waits for: failed'])
    const reason = 'not every node runs: k8s-guide-worker (exited); `make up` starts them again'
    expect(await judged(['k8s-guide-worker (exited)'])).toEqual([
      'passed ',
      `could not check ${reason}`,
      `could not check ${reason}`,
    ])
  })
})

describe('a quiet round', () => {
  // No node and no API is there to be reached: what is not held back would be trouble.
  const quiet = madeLiveCluster({ quiet: true })
  const sends = async (send: (live: LiveCluster) => Promise<unknown>) => {
    const spec = fakeLab({
      sends: { check: async ({ live }) => void (live && (await send(live))) },
      waits: { check: passes, needs: ['sends'] },
    })
    return judgeRound(spec, emptySnapshot(), quiet)
  }

  test.each<[string, (live: LiveCluster) => Promise<unknown>]>([
    ['a node', (live) => live.onNode('worker', 'curl 10.96.0.1')],
    ['a Pod', (live) => live.inPod({ namespace: 'default', name: 'client' }, 'curl 10.96.0.1')],
  ])('sends nothing from %s, which the step waits for and others do not', async (_where, send) => {
    expect(await sends(send)).toEqual([
      {
        id: 'sends',
        verdict: 'not yet',
        unsent: true,
        reason: expect.stringContaining('have not been sent'),
      },
      { id: 'waits', verdict: 'passed' },
    ])
  })

  test('reports failures of the assertions before the requests', async () => {
    const spec = fakeLab({
      wrong: {
        check: async ({ live }) => {
          fails()
          await live?.onNode('worker', 'curl 10.96.0.1')
        },
      },
    })
    expect(await judgeRound(spec, emptySnapshot(), quiet)).toMatchObject([{ verdict: 'failed' }])
  })
})
