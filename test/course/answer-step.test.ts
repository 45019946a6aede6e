import { describe, expect, test } from 'vitest'
import { answerStep } from '../../course/answer-step.ts'
import { type Check, type LiveContext, onCluster } from '../../grading/check-context.ts'
import { checkedStep } from '../../grading/define-lab.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import { emptySnapshot, fakeLab, madeStep } from '../grading/fake-lab.ts'
import { madeLiveCluster } from '../grading/made-live-cluster.ts'

const sendRequest: Check<LiveContext> = ({ live }) =>
  live.inPod({ namespace: 'default', name: 'client' }, 'curl')

/**
 * A lab with a step that predicts and asks, whose check sends a request; the cluster counts the
 * requests.
 */
function madeLab(check: Check<LiveContext> = sendRequest) {
  const notes: Record<string, string> = {}
  let requests = 0
  const live = madeLiveCluster({
    pod: () => {
      requests += 1
      return ''
    },
    core: {
      patchNamespacedConfigMap: async ({ body }: { body: { data: Record<string, string> } }) =>
        Object.assign(notes, body.data),
      readNamespacedConfigMap: async () => ({ data: notes }),
    },
  })
  const open = (ask: string) => ({ ask, choices: [], many: false })
  const definition = madeStep({
    id: 'request',
    points: 10,
    predict: open('Which Pod answers?'),
    question: open('Which Pod has answered?'),
  })
  const truth = () => ({ accepts: ['web-1'], inspect: 'kubectl logs web-1' })
  const step = checkedStep(
    99,
    { ...definition, understanding: undefined },
    {
      check: onCluster(check),
      asked: { predict: truth, question: truth },
      needsCluster: true,
      onlyAsks: false,
    },
  )
  const map = () => ({
    kind: 'ConfigMap',
    metadata: { name: 'lab-99', namespace: 'default' },
    data: { ...notes },
  })
  const source = { live, snapshot: async () => emptySnapshot([map()]) }
  const answer = (text: string) => answerStep(fakeLab({ request: step }), step, source, text)
  return { answer, requests: () => requests }
}

describe('a step whose check sends requests', () => {
  test('sends none after a prediction, and tells nothing of what is open', async () => {
    const { answer, requests } = madeLab()
    const { lines, exitCode } = await answer('web-2')
    expect(requests()).toBe(0)
    expect(exitCode).toBe(0)
    expect(lines).toContain('Now go on with the commands of this step.')
  })

  test('sends them after the answer, and then compares the prediction', async () => {
    const { answer, requests } = madeLab()
    await answer('web-2')
    const { lines, exitCode } = await answer('web-1')
    expect(requests()).toBe(1)
    expect(exitCode).toBe(0)
    expect(lines.join('\n')).toContain('web-2')
  })
})

describe('a step that this cluster cannot have', () => {
  test('says so to an answer, whose command succeeds: the commands of a text go on', async () => {
    const { answer } = madeLab(() => {
      throw new NotApplicable('the kernel has no nat for nft')
    })
    await answer('web-2')
    const { lines, exitCode } = await answer('web-1')
    expect(lines.join('\n')).toContain('the kernel has no nat for nft')
    expect(exitCode).toBe(0)
  })

  test('an answer to a state that does not hold does not succeed', async () => {
    const { answer } = madeLab(() =>
      expectThat(false, { inspect: 'ls', expected: 'rules', actual: 'none' }),
    )
    await answer('web-2')
    expect((await answer('web-1')).exitCode).toBe(1)
  })
})
