import { expect, test } from 'vitest'
import { type ClientAndAgent, expectClosed } from '../../checks/05-exposure/node-agent.ts'
import { Failure } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'

const place = { client: '10.244.1.9', node: 'worker', nodeAddress: '172.18.0.3' } as ClientAndAgent
const own = '#request\t1\t200\t40002\t1\t0\t\tagent of worker'

/** The client Pod's requests to one ClusterIP and to the node's own address, answered with these lines. */
const answers = (...lines: string[]) =>
  ({ inPod: async () => ({ exitCode: 0, stdout: `${lines.join('\n')}\n`, stderr: '' }) }) as unknown as LiveCluster

const closed = (clusterIP: string) => expectClosed(answers(clusterIP, own), ['10.96.0.10'], place, { hint: '' })

test('a network that answers for any address is not the agent', async () => {
  await expect(closed('#request\t0\t404\t40001\t1\t0\t\tdefault backend')).resolves.toBeUndefined()
  await expect(closed('#request\t0\t0\t0\t1\t28\tno answer within 1 s\t')).resolves.toBeUndefined()
})

test('an answer of any agent is one, and so is a connection that nothing was said on', async () => {
  for (const [line, actual] of [
    ['#request\t0\t200\t40001\t1\t0\t\tagent of worker2', 'the agent of worker2 answers'],
    [
      '#request\t0\t0\t40001\t1\t28\tno answer within 1 s\t',
      'a connection was accepted there, without an answer in time',
    ],
  ] as const)
    await expect(closed(line)).rejects.toSatisfy((error) => error instanceof Failure && error.detail.actual === actual)
})
