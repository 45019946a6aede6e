import { describe, expect, test, vi } from 'vitest'
import { magnitudesOf } from '../../checks/06-scale/predictions.ts'
import {
  HOST_MEASUREMENT,
  HOST_TROUBLE,
  type HostMeasurement,
  MEASUREMENT,
  type Measurement,
} from '../../course/scale/measurement.ts'
import { planHostScale, planScale } from '../../course/scale/plan.ts'
import {
  measurementTable,
  scalePlot,
  scaleRemarks,
  tableParts,
} from '../../course/scale/results.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { CheckContext, LabSpec } from '../../grading/check-context.ts'
import { loadSpec } from '../../grading/grader.ts'
import { contextOf, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import {
  type AnswerNote,
  answeredKey,
  answerKey,
  predictedKey,
  truthKey,
} from '../../grading/learning-notes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { misconception } from '../../grading/question.ts'
import { Refusal } from '../../host/main.ts'
import { emptySnapshot } from './fake-lab.ts'
import { madeLiveCluster } from './made-live-cluster.ts'
import {
  type Curves,
  madeHostRun,
  madeRun,
  type Noise,
  usual,
  usualOnHost,
  wobble,
} from './made-measurement.ts'

const spec: LabSpec = await loadSpec(readLab(6))
const sizes = [10, 100, 600, 1200, 2000]
const shapes = ['change', 'lookup', 'keep-alive', 'cpu']
const quiet: Noise = {
  changeMs: 1,
  newMoreMicros: 1,
  keptMoreMicros: 0.5,
  workMicros: 0.5,
  busyMore: 0.0003,
}

/** The verdicts on a kept run, of a capture: nothing is measured here. */
async function verdicts(
  run: unknown,
  only?: string[],
  answers: Record<string, string> = {},
  onHost: Record<string, unknown> = { [HOST_MEASUREMENT]: madeHostRun(sizes) },
) {
  const notes: [string, unknown][] = [
    [MEASUREMENT, run],
    ...Object.entries(onHost),
    ...Object.entries(answers).map(([id, text]): [string, AnswerNote] => [
      answerKey(id),
      { text, at: '2026-11-21' },
    ]),
    // What kube-proxy counted is not in a capture: the answer that was right is.
    [answeredKey('own-sync'), { text: '64', at: '2026-11-21' }],
    ['own-sync', { nodes: 3 }],
    // A prediction counts as one even if it is wrong.
    ...spec.lab.steps.flatMap(({ id, predict }): [string, AnswerNote][] =>
      predict ? [[predictedKey(id), { text: predict.choices[0] ?? '1', at: '2026-11-21' }]] : [],
    ),
  ]
  const data = Object.fromEntries(notes.map(([key, note]) => [key, JSON.stringify(note)]))
  const map = { kind: 'ConfigMap', metadata: { name: 'lab-6', namespace: 'default' }, data }
  const outcomes = await judgeRound(spec, emptySnapshot([map]), undefined, only)
  return Object.fromEntries(outcomes.map(({ id, verdict }) => [id, verdict]))
}

const all = (ids: readonly string[], verdict: string) =>
  Object.fromEntries(ids.map((id) => [id, verdict]))

const curved = (mode: SwitchedMode, change: Partial<Curves>): Record<SwitchedMode, Curves> => ({
  ...usual,
  [mode]: { ...usual[mode], ...change },
})

/** The run with one point of a mode changed. */
function altered(
  run: Measurement,
  mode: SwitchedMode,
  index: number,
  change: Partial<Measurement['ipvs'][number]>,
) {
  const points = run[mode].map((point, place) =>
    place === index ? { ...point, ...change } : point,
  )
  return { ...run, [mode]: points }
}

/** The run on a machine that has less to give at every other size or so. */
function slowedAtTimes(run: Measurement, slower: number, random: () => number): Measurement {
  const slow = (points: Measurement['ipvs']) =>
    points.map((point) => {
      const factor = random() > 0 ? slower : 1
      const times = (values: readonly number[]) => values.map((value) => value * factor)
      return {
        ...point,
        changeMs: times(point.changeMs),
        newMoreMicros: times(point.newMoreMicros),
        keptMoreMicros: times(point.keptMoreMicros),
        workMicros: times(point.workMicros),
        busyMore: times(point.busyMore),
      }
    })
  return { ...run, iptables: slow(run.iptables), ipvs: slow(run.ipvs) }
}

describe('a typical run', () => {
  test('passes every step, with and without a little noise', async () => {
    const answers = { 'rules-each': '5', 'turning-point': 'none', nftables: '4' }
    const solved = all(
      spec.lab.steps.map(({ id }) => id),
      'passed',
    )
    expect(await verdicts(madeRun(sizes), undefined, answers)).toEqual(solved)
    for (let seed = 1; seed <= 30; seed++) {
      const run = madeRun(sizes, usual, quiet, seed)
      expect(await verdicts(run, shapes), `seed ${seed}`).toEqual(all(shapes, 'passed'))
    }
  })

  test('has answers that are computed from its own figures', async () => {
    const dear = madeRun(
      sizes,
      curved('iptables', { newMoreMicros: (services) => services * 0.09 }),
    )
    const asked = ['rules-each', 'turning-point']
    expect(await verdicts(dear, asked, { 'rules-each': '4', 'turning-point': 'none' })).toEqual(
      all(asked, 'failed'),
    )
    expect(await verdicts(dear, asked, { 'rules-each': '5', 'turning-point': '1200' })).toEqual(
      all(asked, 'passed'),
    )
  })

  test('keeps its passed steps when a later run shows less', async () => {
    const kept = { cpu: { measured: 'earlier' } }
    const flat = madeRun(sizes, curved('ipvs', { busyMore: (services) => services * 8e-6 }), quiet)
    const map = (notes: object) => ({
      kind: 'ConfigMap',
      metadata: { name: 'lab-6', namespace: 'default' },
      data: Object.fromEntries(
        Object.entries({ ...predicted, ...notes }).map(([key, note]) => [
          key,
          JSON.stringify(note),
        ]),
      ),
    })
    const truth = { accepts: ['iptables'], right: true }
    const predicted = {
      [predictedKey('cpu')]: { text: 'iptables', at: '2026-11-21' },
      [truthKey('cpu')]: truth,
    }
    const judged = async (notes: object, live?: LiveCluster) =>
      (await judgeRound(spec, emptySnapshot([map(notes)]), live, ['cpu']))[0]?.verdict
    expect(await judged({ measurement: flat }, madeLiveCluster())).toBe('failed')
    expect(await judged({ measurement: flat, ...kept }, madeLiveCluster())).toBe('passed')
    expect(await judged({ measurement: flat, ...kept })).toBe('not applicable')
  })

  test('is not applicable where the measuring kernel cannot run', async () => {
    vi.stubEnv('PATH', '/nowhere')
    try {
      const outcomes = await judgeRound(spec, emptySnapshot(), madeLiveCluster())
      expect(outcomes.filter(({ verdict }) => verdict !== 'not applicable')).toEqual([])
      expect(outcomes[0]?.reason).toMatch(/^the measuring kernel does not run here: .*apt-get/)
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('is not applicable to a capture without a run', async () => {
    const outcomes = await judgeRound(spec, emptySnapshot(), undefined)
    expect(new Set(outcomes.map(({ verdict }) => verdict))).toEqual(new Set(['not applicable']))
  })
})

describe('noise', () => {
  test.each([
    [
      'of a busy machine',
      { changeMs: 80, newMoreMicros: 30, keptMoreMicros: 15, workMicros: 15, busyMore: 0.01 },
    ],
    [
      'that drowns everything',
      { changeMs: 400, newMoreMicros: 400, keptMoreMicros: 200, workMicros: 30, busyMore: 0.3 },
    ],
  ] satisfies [string, Noise][])('%s costs no learner a point', async (_what, noise) => {
    const seen = new Set<string>()
    for (let seed = 1; seed <= 100; seed++) {
      const found = await verdicts(madeRun(sizes, usual, noise, seed), shapes)
      for (const verdict of Object.values(found)) seen.add(verdict)
    }
    expect(seen).toContain('could not check')
    expect(seen).not.toContain('failed')
  })

  test('a wrong shape fails on a steady machine, and could not be checked on a busy one', async () => {
    const rising = curved('ipvs', { newMoreMicros: (services) => services * 0.02 })
    const steady = madeRun(sizes, rising, quiet)
    expect(await verdicts(steady, ['lookup'])).toEqual({ lookup: 'failed' })
    const slow = { workMicros: steady.ipvs[2]?.workMicros.map((value) => value * 1.4) ?? [] }
    expect(await verdicts(altered(steady, 'ipvs', 2, slow), ['lookup'])).toEqual({
      lookup: 'could not check',
    })
  })

  test('a shape could not be checked if the machine was slower at some sizes', async () => {
    for (const slower of [1.2, 1.9])
      for (let seed = 1; seed <= 60; seed++) {
        const random = wobble(seed)
        const steady = madeRun(sizes, usual, quiet, seed)
        const seen = Object.values(await verdicts(slowedAtTimes(steady, slower, random), shapes))
        expect(seen, `${slower} times, seed ${seed}`).not.toContain('failed')
      }
  })

  test('a few outliers at one size do not change the verdict', async () => {
    const run = madeRun(sizes, usual, quiet)
    const [first, second, ...rest] = run.iptables[3]?.newMoreMicros ?? []
    if (first === undefined || second === undefined) throw new Error('the made run has no values')
    const hiccup = altered(run, 'iptables', 3, {
      newMoreMicros: [first + 900, second + 400, ...rest],
    })
    expect(Object.values(await verdicts(hiccup, ['lookup']))).not.toContain('failed')
  })
})

describe('a wrong shape is refused', () => {
  test.each<[string, string, Record<SwitchedMode, Curves>]>([
    ['change', 'IPVS rising', curved('ipvs', { changeMs: (services) => 30 + services * 0.1 })],
    ['lookup', 'IPVS rising', curved('ipvs', { newMoreMicros: (services) => services * 0.02 })],
    [
      'keep-alive',
      'IPVS rising',
      curved('ipvs', { keptMoreMicros: (services) => services * 0.02 }),
    ],
    [
      'keep-alive',
      'iptables rising',
      curved('iptables', { keptMoreMicros: (services) => services * 0.02 }),
    ],
    ['cpu', 'IPVS rising', curved('ipvs', { busyMore: (services) => services * 8e-6 })],
  ])('%s: %s', async (step, _what, curves) => {
    expect(await verdicts(madeRun(sizes, curves, quiet), [step])).toEqual({ [step]: 'failed' })
    expect(await verdicts(madeRun(sizes, usual, quiet), [step])).toEqual({ [step]: 'passed' })
  })

  test.each<[string, string, Partial<Curves>]>([
    ['change', 'flat', { changeMs: () => 35 }],
    ['change', 'falling', { changeMs: (services) => 400 - services / 10 }],
    ['lookup', 'flat', { newMoreMicros: () => 0 }],
    ['lookup', 'falling', { newMoreMicros: (services) => -services * 0.02 }],
    ['cpu', 'flat', { busyMore: () => 0 }],
    ['cpu', 'falling', { busyMore: (services) => -services * 8e-6 }],
  ])('%s: a %s curve with iptables does not count as rising', async (step, _what, curves) => {
    for (const noise of [quiet, {}])
      expect(await verdicts(madeRun(sizes, curved('iptables', curves), noise), [step])).toEqual({
        [step]: 'could not check',
      })
  })
})

describe('nftables mode', () => {
  const judged = async (
    onHost: Record<string, unknown>,
    answer = '4',
  ): Promise<string | undefined> =>
    (await verdicts(madeRun(sizes), ['measured', 'nftables'], { nftables: answer }, onHost))
      .nftables
  const run = (host: HostMeasurement) => ({ [HOST_MEASUREMENT]: host })
  const slow = { ...usualOnHost.nftables, newMoreMicros: (services: number) => services * 0.01 }
  const flatList = { ...usualOnHost['iptables-nft'], newMoreMicros: () => 0 }

  test('passes beside a list that rises, with and without noise and iptables-legacy', async () => {
    const { 'iptables-legacy': _, ...withoutLegacy } = usualOnHost
    const { 'iptables-nft': __, ...withoutNft } = usualOnHost
    expect(await judged(run(madeHostRun(sizes)))).toBe('passed')
    expect(await judged(run(madeHostRun(sizes, withoutLegacy)))).toBe('passed')
    expect(await judged(run(madeHostRun(sizes, withoutNft)))).toBe('passed')
    for (let seed = 1; seed <= 10; seed++)
      expect(await judged(run(madeHostRun(sizes, usualOnHost, quiet, seed))), `${seed}`).toBe(
        'passed',
      )
  })

  test('a lookup that rises fails, one that noise hides could not be checked', async () => {
    const rising = madeHostRun(sizes, { ...usualOnHost, nftables: slow })
    expect(await judged(run(rising))).toBe('failed')
    const hidden = madeHostRun(sizes, { ...usualOnHost, 'iptables-nft': flatList })
    expect(await judged(run(hidden))).toBe('could not check')
  })

  test.each([0, 1, 2])('one rule more in curve %i fails', async (index) => {
    const host = madeHostRun(sizes)
    const [point] = host.curves[index]?.points ?? []
    if (!point) throw new Error('the made run has no such curve')
    point.rules++
    expect(await judged(run(host))).toBe('failed')
  })

  test('a wrong number of rules fails', async () => {
    for (const answer of ['5', '1', '8'])
      expect(await judged(run(madeHostRun(sizes)), answer)).toBe('failed')
  })

  test('is not applicable where it was tried in vain, in a capture without a run, and for a run of no sense', async () => {
    expect(await judged({ [HOST_TROUBLE]: 'This machine has no NAT for nft.' })).toBe(
      'not applicable',
    )
    expect(await judged({})).toBe('not applicable')
    const { nftables } = usualOnHost
    expect(await judged(run(madeHostRun(sizes, { nftables })))).toBe('not applicable')
    const { nftables: _, ...withoutNftables } = usualOnHost
    expect(await judged(run(madeHostRun(sizes, withoutNftables)))).toBe('not applicable')
    expect(await judged({ [HOST_MEASUREMENT]: { ...madeHostRun(sizes), curves: [] } })).toBe(
      'not applicable',
    )
  })
})

describe('counts', () => {
  const good = madeRun(sizes)
  const more = (
    count: 'rules' | 'entries' | 'members' | 'virtualServers',
    mode: SwitchedMode,
    index = 1,
  ) => altered(good, mode, index, { [count]: (good[mode][index]?.[count] ?? 0) + 1 })

  test.each<[string, string, Measurement]>([
    ['entries', 'one entry too many', more('entries', 'iptables')],
    ['entries', 'one rule too many', more('rules', 'iptables', 0)],
    ['entries', 'one entry too many at the largest size', more('entries', 'iptables', 4)],
    ['sets', 'a rule more in IPVS mode', more('rules', 'ipvs')],
    ['sets', 'a rule more at the largest size', more('rules', 'ipvs', 4)],
    ['sets', 'a member more', more('members', 'ipvs')],
    ['sets', 'a virtual server more at the largest size', more('virtualServers', 'ipvs', 4)],
  ])('%s: %s', async (step, _what, run) => {
    expect(await verdicts(run, [step])).toEqual({ [step]: 'failed' })
    expect(await verdicts(good, [step])).toEqual({ [step]: 'passed' })
  })

  test('counts of many endpoints at an extrapolated size pass', async () => {
    const run = madeRun([10, 40, 300, 3000], usual, {}, 1, 7)
    expect(await verdicts(run, ['entries', 'sets'])).toEqual({ entries: 'passed', sets: 'passed' })
  })

  test('fewer than four sizes or a single value per size fail', async () => {
    expect(await verdicts(madeRun([10, 100, 1000]), ['measured'])).toEqual({ measured: 'failed' })
    const once = altered(good, 'iptables', 2, { busyMore: [0.1] })
    expect(await verdicts(once, ['measured'])).toEqual({ measured: 'failed' })
    expect(await verdicts(good, ['measured'])).toEqual({ measured: 'passed' })
  })

  test.each<[string, unknown]>([
    ['other sizes in the other mode', { ...good, ipvs: madeRun([10, 20, 30, 40, 50]).ipvs }],
    [
      'sizes out of order',
      { ...good, iptables: good.iptables.toReversed(), ipvs: good.ipvs.toReversed() },
    ],
    ['a mode left out', { ...good, ipvs: [] }],
    ['a value that is no number', altered(good, 'ipvs', 0, { changeMs: [Number.NaN] })],
  ])('%s: no run at all', async (_what, run) => {
    expect((await verdicts(run, ['measured'])).measured).toBe('not applicable')
  })
})

describe('predictions', () => {
  const context = (run: Measurement): CheckContext => {
    const map = {
      kind: 'ConfigMap',
      metadata: { name: 'lab-6', namespace: 'default' },
      data: {
        [MEASUREMENT]: JSON.stringify(run),
        [HOST_MEASUREMENT]: JSON.stringify(madeHostRun(sizes)),
      },
    }
    const snapshot = emptySnapshot([map])
    return contextOf(snapshot, new LabNotes(6, snapshot), undefined)
  }
  const truths = (run: Measurement) =>
    Promise.all(
      spec.steps.flatMap(({ id, asked }) =>
        // What kube-proxy reports is in own-sync.test.ts.
        asked.predict && id !== 'own-sync'
          ? [Promise.resolve(asked.predict(context(run))).then((truth) => [id, truth] as const)]
          : [],
      ),
    )

  test('are right as the run shows it, and every wrong one is explained', async () => {
    const found = Object.fromEntries(await truths(madeRun(sizes)))
    expect(
      Object.fromEntries(Object.entries(found).map(([id, { accepts }]) => [id, accepts[0]])),
    ).toEqual({
      measured: 'rules, change, new-connections, cpu',
      entries: '2001',
      sets: 'set-members, virtual-servers, real-servers',
      change: '10x',
      lookup: '10ns',
      nftables: 'rules, change',
    })
    for (const { id, predict } of spec.lab.steps) {
      const truth = found[id]
      if (!predict || !truth || predict.many) continue
      for (const choice of predict.choices) {
        const isRight = truth.accepts.includes(choice)
        const isNeighbour = id === 'change' || id === 'lookup'
        const told = isRight || isNeighbour || misconception(predict, truth, choice) !== undefined
        expect(told, `${id}: ${choice}`).toBe(true)
      }
    }
  })

  test('a curve that noise hides may be predicted or not, one that rises must be', async () => {
    const run = madeRun(sizes, curved('iptables', { busyMore: () => 0 }))
    const [[, { accepts } = { accepts: [] }] = []] = await truths(run)
    expect(accepts).toEqual([
      'rules, change, new-connections, cpu',
      'rules, change, new-connections',
    ])
  })

  test.each([
    [1, [0]],
    [2.2, [0]],
    [2.9, [0, 1]],
    [4, [1, 0]],
    [60, [2]],
    [28, [1, 2]],
  ])('%d is near 10 to the power of %j', (value, magnitudes) => {
    expect(magnitudesOf(value)).toEqual(magnitudes)
  })
})

describe('output for people', () => {
  const run = madeRun(sizes)

  test('a part of the table has its rows alone, and all parts have all of them', () => {
    const lines = (part?: string) =>
      measurementTable(run, part)
        .slice(1)
        .map((line) => line.trim().split(/ {2,}/)[0])
    expect(lines('change')).toEqual(['to change one (ms)', 'IPVS', 'CPU time', 'IPVS'])
    expect(tableParts.flatMap(lines)).toEqual(lines())
  })

  test('the table has a column for each size and both modes of each quantity', () => {
    const table = measurementTable(run)
    expect(table[0]?.split(/\s+/)).toEqual(['Services', ...sizes.map(String)])
    expect(table.find((line) => line.startsWith('rules'))).toMatch(/^rules\s+iptables(\s+\d+){5}$/)
    expect(table.filter((line) => /^\s+IPVS/.test(line))).toHaveLength(15)
    expect(table.find((line) => line.includes('slower'))).toMatch(
      /^ {2}slower by \(%\)\s+iptables(\s+-?[\d.]+){5}$/,
    )
  })

  test('the picture has both curves in each chart, the machine and the published figures', () => {
    const svg = scalePlot(
      { ...run, machine: 'a <machine> & more' },
      scaleRemarks({ ...run, machine: 'a <machine> & more' }),
    )
    expect(svg.match(/<circle/g)).toHaveLength(8 * 2 * sizes.length)
    expect(svg).toContain('a &lt;machine&gt; &amp; more')
    expect(svg).toContain('about 35 % more of a core, IPVS mode about 8 %')
    expect(svg).not.toMatch(/NaN|Infinity|undefined/)
  })

  test('the table and the picture of nftables mode have its curves, and no virtual servers', () => {
    const host = madeHostRun(sizes)
    const table = measurementTable(host)
    expect(table.join('\n')).not.toContain('servers')
    expect(table.filter((line) => /^\s+nftables/.test(line))).toHaveLength(13)
    const svg = scalePlot(host, scaleRemarks(host))
    expect(svg.match(/<circle/g)).toHaveLength(8 * 3 * sizes.length)
    expect(svg).toContain('<title>iptables-legacy, iptables-nft, nftables mode at growing')
    expect(svg).not.toMatch(/NaN|Infinity|undefined/)
  })

  test('the picture of a single size is complete', () => {
    expect(scalePlot(madeRun([10]), [])).not.toMatch(/NaN|Infinity|undefined/)
  })
})

describe('the plan', () => {
  test('is short by default, and always has enough sizes', () => {
    expect(planScale({}).estimateSeconds).toBeLessThan(300)
    for (const MAX of ['50', '100', '300', '1000', '10000']) {
      const { sizes } = planScale({ MAX })
      expect(sizes.length).toBeGreaterThanOrEqual(4)
      expect(sizes.at(-1)).toBe(Number(MAX))
      expect(sizes).toEqual([...new Set(sizes)].sort((a, b) => a - b))
    }
  })

  test("is short on the machine's own kernel, too", () => {
    expect(planHostScale({})).toMatchObject({ sizes: [10, 100, 300, 600, 1000] })
    expect(planHostScale({}).estimateSeconds).toBeLessThan(150)
    expect(() => planHostScale({ MAX: 'many' })).toThrow(Refusal)
  })

  test('needs more time and memory for more Services', () => {
    const [small, large] = [planScale({ MAX: '300' }), planScale({ MAX: '10000', ENDPOINTS: '10' })]
    expect(large.estimateSeconds).toBeGreaterThan(small.estimateSeconds)
    expect(large.memoryMegabytes).toBeGreaterThan(small.memoryMegabytes)
  })

  test.each(['0', '-5', '1e9', 'many', '12.5'])('MAX "%s" is refused with an example', (MAX) => {
    expect(() => planScale({ MAX })).toThrow(Refusal)
    expect(() => planScale({ MAX })).toThrow(new RegExp(`"${MAX}".*make measure MAX=`))
  })
})
