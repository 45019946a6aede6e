import { expect, test } from 'vitest'
import { measureWithNodes } from '../../checks/03-from-outside/shares.ts'
import type { PodShare } from '../../grading/traffic.ts'

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
