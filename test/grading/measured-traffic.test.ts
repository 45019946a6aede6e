import { expect, test } from 'vitest'
import { measureWithNodes } from '../../checks/03-from-outside/shares.ts'
import { expectClosed } from '../../checks/05-exposure/node-agent.ts'
import { Failure } from '../../grading/failure.ts'
import { fromPod } from '../../grading/requests.ts'
import type { PodShare } from '../../grading/shares.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const shares = (...requests: [number, number]): PodShare[] =>
  requests.map((count, index) => ({ pod: `web-${index}`, node: `node-${index}`, requests: count }))
const isEven = ([one, other]: readonly PodShare[]) => one?.requests === other?.requests

/** Measures results that follow one another; the last one stays. */
function measuring(results: readonly PodShare[][]) {
  let asked = 0
  const measure = async () => results[Math.min(asked++, results.length - 1)] ?? []
  return { measure, asked: () => asked }
}
const nodes = ['node-0', 'node-1']

test('the measurement waits for a node that the load balancer does not use yet', async () => {
  const leftOut = Array.from({ length: 5 }, () => shares(120, 0))
  const { measure } = measuring([...leftOut, shares(90, 30), shares(60, 60)])
  expect(await measureWithNodes(nodes, measure, isEven)).toEqual(shares(60, 60))
})

test('the measurement ends at the deadline if a node does not come back', async () => {
  const { measure } = measuring([shares(120, 0)])
  expect(await measureWithNodes(nodes, measure, isEven, 10)).toEqual(shares(120, 0))
})

test('unexpected shares with all nodes are measured at most three times', async () => {
  const { measure, asked } = measuring([shares(90, 30)])
  expect(await measureWithNodes(nodes, measure, isEven)).toEqual(shares(90, 30))
  expect(asked()).toBe(3)
})

const client = fromPod('client', { address: '10.244.1.9', node: 'worker' })
const snapshot = new Snapshot({
  objects: { apiVersion: 'v1', kind: 'List', items: [] },
  nodes: [{ name: 'worker', files: new Map() }],
})
const place = { client, node: snapshot.node('worker') }
/**
 * The client Pod's requests, answered with these lines: the one to a ClusterIP, then the one to the
 * node's own address.
 */
const answers = (...lines: string[]) => madeLiveCluster({ pod: () => `${lines.shift()}\n` })
const own = '#request\t0\t200\t40002\t1\t0\t\tagent of worker'

const closed = (clusterIP: string) =>
  expectClosed(answers(clusterIP, own), ['10.96.0.10'], place, { hint: '' })

test('an answer of another machine does not count as an answer of the agent', async () => {
  await expect(closed('#request\t0\t404\t40001\t1\t0\t\tdefault backend')).resolves.toBeUndefined()
  await expect(closed('#request\t0\t0\t0\t1\t28\tno answer within 1 s\t')).resolves.toBeUndefined()
})

test('an answer of any agent fails the check, and so does a connection without an answer', async () => {
  for (const [line, actual] of [
    ['#request\t0\t200\t40001\t1\t0\t\tagent of worker2', 'the agent of worker2 answers'],
    [
      '#request\t0\t0\t40001\t1\t28\tno answer within 1 s\t',
      'a connection was accepted there, without an answer in time',
    ],
  ] as const)
    await expect(closed(line)).rejects.toSatisfy(
      (error) => error instanceof Failure && error.detail.actual === actual,
    )
})
