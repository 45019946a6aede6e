import { describe, expect, test } from 'vitest'
import type { CheckContext, LabSpec, StepQuestions } from '../../grading/check-context.ts'
import { checkedStep } from '../../grading/define-lab.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import { judgeRound } from '../../grading/judge.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { keepAnswer, keepGivenUp, keepPrediction } from '../../grading/question.ts'
import { reportOf } from '../../grading/report.ts'
import { revealStep } from '../../grading/reveal.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { emptySnapshot, fakeLab, madeStep } from './fake-lab.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const HOOKS = ['PREROUTING', 'INPUT', 'FORWARD']
const open = (ask: string) => ({ ask, choices: [] as string[], many: false })
const closed = {
  ask: 'Which colour has the cluster?',
  choices: ['red', 'teal', 'blue'],
  many: false,
}
const subset = { ask: 'Which counters grow for the packet?', choices: HOOKS, many: true }

/**
 * A cluster with a colour and a number of members; its notes are written by the functions of
 * `make answer`.
 */
class MadeCluster {
  readonly notes: Record<string, string> = {}
  readonly live: LiveCluster
  members = 3

  constructor() {
    const core = {
      patchNamespacedConfigMap: async ({ body }: { body: { data: Record<string, string> } }) =>
        Object.assign(this.notes, body.data),
      readNamespacedConfigMap: async () => ({ data: this.notes }),
    }
    this.live = madeLiveCluster({ core })
  }

  snapshot(withNotes = true): Snapshot {
    const map = {
      kind: 'ConfigMap',
      metadata: { name: 'lab-99', namespace: 'default' },
      data: { ...this.notes },
    }
    const state = { kind: 'State', metadata: { name: 'it' }, data: { members: `${this.members}` } }
    return emptySnapshot(withNotes ? [state, map] : [state])
  }
}

const membersOf = (snapshot: Snapshot) => snapshot.find('State', '', 'it')?.data?.members ?? ''

const asked: StepQuestions = {
  predict: ({ snapshot }) => ({
    accepts: [membersOf(snapshot)],
    inspect: 'ipset list',
    wrong: [
      {
        when: (answer) => Number(answer) > 10,
        because: 'A member is an address and port, not a rule.',
      },
    ],
    because: 'Each port of a Service is one member.',
  }),
  question: () => ({
    accepts: ['teal'],
    inspect: 'kubectl get colour',
    wrong: [{ when: 'RED', because: 'Red is the colour of another cluster.' }],
    because: 'Teal is what it was painted with.',
  }),
}

function madeLab(questions: StepQuestions = asked, question: typeof closed = closed): LabSpec {
  const step = madeStep({
    id: 'sets',
    points: 10,
    predict: open('How many members are there?'),
    question,
  })
  const check = ({ snapshot, show }: Pick<CheckContext, 'snapshot' | 'show'>) => {
    show([`${membersOf(snapshot)} members, teal`])
    expectThat(membersOf(snapshot) !== '0', {
      inspect: 'ipset list',
      expected: 'members',
      actual: 'none',
    })
  }
  const made = checkedStep(
    99,
    { ...step, understanding: undefined },
    { check, asked: questions, needsCluster: false, onlyAsks: false },
  )
  return fakeLab({ sets: made })
}

const spec = madeLab()
const [sets = madeStep({ id: '' })] = spec.steps
const judged = async (cluster: MadeCluster, lab = spec) =>
  (await judgeRound(lab, cluster.snapshot(), cluster.live))[0] ?? {
    id: '',
    verdict: 'could not check' as const,
  }
const pointsIn = async (cluster: MadeCluster) => {
  const request = { lab: 99, source: { kind: 'capture', folder: 'x' } } as const
  return reportOf(spec.lab, request, [await judged(cluster)], { seconds: 0 }).score
}

describe('a step with a state, a prediction and a question', () => {
  test('waits for the prediction, then for the answer, and passes with both', async () => {
    const cluster = new MadeCluster()
    const first = await judged(cluster)
    expect([first.verdict, first.unanswered, first.reason]).toEqual([
      'not yet',
      'prediction',
      'waits for your prediction',
    ])
    expect(first.failure?.next).toBe("make answer LAB=99 Q=sets A='…'")
    await keepPrediction(cluster.live.client, 99, sets, '23')
    const second = await judged(cluster)
    expect([second.verdict, second.unanswered]).toEqual(['not yet', 'answer'])
    expect(second.learning?.prediction).toMatchObject({
      text: '23',
      right: false,
      accepts: ['3'],
      mistake: 'A member is an address and port, not a rule.',
      because: 'Each port of a Service is one member.',
    })
    await keepAnswer(cluster.live.client, 99, sets, 'Teal')
    const third = await judged(cluster)
    expect([third.verdict, third.cost]).toEqual(['passed', undefined])
    // What was measured would have told what was asked.
    expect([first.measured, second.measured, third.measured]).toEqual([
      undefined,
      undefined,
      ['3 members, teal'],
    ])
    expect(third.learning?.answered).toMatchObject({
      text: 'teal',
      because: 'Teal is what it was painted with.',
    })
  })

  test('does not pass by answers alone', async () => {
    const cluster = new MadeCluster()
    cluster.members = 0
    await keepPrediction(cluster.live.client, 99, sets, '3')
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    expect((await judged(cluster)).verdict).toBe('failed')
  })

  test('keeps the first prediction, and compares it with the first state in which it could be seen', async () => {
    const cluster = new MadeCluster()
    await keepPrediction(cluster.live.client, 99, sets, '3')
    expect((await keepPrediction(cluster.live.client, 99, sets, '4')).text).toBe('3')
    await judged(cluster)
    cluster.members = 7
    expect((await judged(cluster)).learning?.prediction).toMatchObject({ text: '3', right: true })
  })

  test('a wrong answer gets its misconception and costs a third, the same one again nothing', async () => {
    const cluster = new MadeCluster()
    await keepPrediction(cluster.live.client, 99, sets, '3')
    await keepAnswer(cluster.live.client, 99, sets, 'red')
    for (const _again of [1, 2]) {
      const { verdict, failure } = await judged(cluster)
      expect([verdict, failure?.why]).toEqual(['failed', 'Red is the colour of another cluster.'])
      expect(failure?.hint).toContain(
        "have cost 2 of this step's 7 points for understanding, another wrong one costs 3 more",
      )
      expect(JSON.stringify(failure)).not.toContain('"teal"')
    }
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    expect(await pointsIn(cluster)).toBe(8)
  })

  test('an answer that is not among the choices is refused and costs nothing', async () => {
    const cluster = new MadeCluster()
    await expect(keepAnswer(cluster.live.client, 99, sets, 'green')).rejects.toThrow(
      '"green" is not one of the possible answers, which are `red` · `teal` · `blue`',
    )
    expect(cluster.notes).toEqual({})
  })

  test('is given up for its points of understanding, and only where its state holds', async () => {
    const cluster = new MadeCluster()
    cluster.members = 0
    expect(
      await revealStep(spec, 'sets', {
        snapshot: async () => cluster.snapshot(),
        live: cluster.live,
      }),
    ).toMatchObject({
      verdict: 'failed',
    })
    cluster.members = 3
    const source = { snapshot: async () => cluster.snapshot(), live: cluster.live }
    expect(await revealStep(spec, 'sets', source)).toMatchObject({
      predict: { accepts: ['3'] },
      question: { accepts: ['teal'] },
    })
    await keepGivenUp(cluster.live.client, 99, 'sets')
    expect((await judged(cluster)).verdict).toBe('passed')
    expect(await pointsIn(cluster)).toBe(3)
  })

  test("wants evidence of the learner's own work, and keeps it", async () => {
    let seen = 0
    const evidence = () =>
      seen > 0
        ? { seen }
        : fail({ inspect: 'kubectl logs', expected: 'a request of your own', actual: 'none' })
    const lab = madeLab({ ...asked, evidence })
    const cluster = new MadeCluster()
    await keepPrediction(cluster.live.client, 99, sets, '3')
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    expect((await judged(cluster, lab)).failure?.expected).toBe('a request of your own')
    seen = 2
    expect((await judged(cluster, lab)).verdict).toBe('passed')
    seen = 0
    expect((await judged(cluster, lab)).verdict).toBe('passed')
    expect(cluster.notes['evidence.sets']).toBe('{"seen":2}')
  })
})

describe('on a capture', () => {
  test("evidence of the learner's own work is a note, and nothing is asked of a cluster", async () => {
    const evidence = () => {
      throw new Error('there is no cluster to look at')
    }
    const lab = madeLab({ ...asked, evidence })
    const cluster = new MadeCluster()
    await keepPrediction(cluster.live.client, 99, sets, '3')
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    const [without] = await judgeRound(lab, cluster.snapshot(), undefined)
    expect([without?.verdict, without?.failure?.inspect]).toEqual([
      'failed',
      'kubectl get configmap lab-99 -o yaml',
    ])
    cluster.notes['evidence.sets'] = '{"marker":"mine"}'
    const [withNote] = await judgeRound(lab, cluster.snapshot(), undefined)
    expect(withNote?.verdict).toBe('passed')
  })

  test('the answer that was right counts, also if a wrong one was given later', async () => {
    const cluster = new MadeCluster()
    await keepPrediction(cluster.live.client, 99, sets, '3')
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    await judged(cluster)
    await keepAnswer(cluster.live.client, 99, sets, 'red')
    expect((await judgeRound(spec, cluster.snapshot(), undefined))[0]?.verdict).toBe('passed')
    cluster.notes['answered.sets'] = cluster.notes['answer.sets'] ?? ''
    expect((await judgeRound(spec, cluster.snapshot(), undefined))[0]?.verdict).not.toBe('passed')
  })

  test('without notes of the lab, only the state is judged', async () => {
    const [outcome] = await judgeRound(spec, new MadeCluster().snapshot(false), undefined)
    expect(outcome?.verdict).toBe('passed')
  })

  test('with notes of the lab, predictions and answers are wanted', async () => {
    const cluster = new MadeCluster()
    expect((await judgeRound(spec, cluster.snapshot(), undefined))[0]?.unanswered).toBe(
      'prediction',
    )
    await keepPrediction(cluster.live.client, 99, sets, '5')
    await keepAnswer(cluster.live.client, 99, sets, 'teal')
    expect((await judgeRound(spec, cluster.snapshot(), undefined))[0]?.verdict).toBe('passed')
  })
})

test.each([
  ['INPUT, PREROUTING', 'passed'],
  ['prerouting input', 'passed'],
  ['none', 'failed'],
  ['INPUT', 'failed'],
])('a subset of the choices may be typed as %s', async (typed, verdict) => {
  const lab = madeLab(
    { ...asked, question: () => ({ accepts: ['PREROUTING, INPUT'], inspect: 'iptables' }) },
    subset,
  )
  const [step = sets] = lab.steps
  const cluster = new MadeCluster()
  await keepPrediction(cluster.live.client, 99, step, '3')
  await keepAnswer(cluster.live.client, 99, step, typed)
  const outcome = await judged(cluster, lab)
  expect(outcome.verdict).toBe(verdict)
  // Eight subsets are too many to be guessed.
  expect(outcome.learning?.wrongTries).toBe(0)
})

test('a step builds on the state of another one, even if that one waits for an answer', async () => {
  const cluster = new MadeCluster()
  const lab = fakeLab({ sets, next: { needs: ['sets'] } })
  const outcomes = await judgeRound(lab, cluster.snapshot(), cluster.live)
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['not yet', 'passed'])
})

test('a step that waits for another one again keeps what was predicted and answered there', async () => {
  const cluster = new MadeCluster()
  await keepPrediction(cluster.live.client, 99, sets, '3')
  const check = () => fail({ inspect: 'cat it', expected: 'this', actual: 'that' })
  const lab = fakeLab({ first: { check }, sets: { ...sets, needs: ['first'] } })
  const [, outcome] = await judgeRound(lab, cluster.snapshot(), cluster.live)
  expect(outcome).toMatchObject({ waitsFor: ['first'], learning: { prediction: { text: '3' } } })
})
