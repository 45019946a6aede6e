// Lab 9: whether the nodes were changed one after the other, by times in whole seconds.

import { expect, test } from 'vitest'
import { orderOfChanges } from '../../checks/09-leaving-ipvs/nodes.ts'

const changed = (node: string, created: number, running: number) => ({
  node,
  created: `2026-11-27T08:06:${created}Z`,
  running: `2026-11-27T08:06:${running}Z`,
})

test('two nodes that are changed within one second, one after the other, are in order', () => {
  const nodes = [changed('b', 24, 25), changed('a', 24, 24), changed('c', 26, 27)]
  for (const listed of [nodes, nodes.toReversed()])
    expect(orderOfChanges(listed)).toEqual({
      inOrder: [changed('a', 24, 24), changed('b', 24, 25), changed('c', 26, 27)],
      hasty: undefined,
    })
})

test('a node that is changed before the one before it runs is named', () => {
  const { hasty } = orderOfChanges([
    changed('a', 24, 28),
    changed('c', 30, 31),
    changed('b', 25, 29),
  ])
  expect(hasty?.node).toBe('b')
})
