import { expect, test } from 'vitest'
import { selectUndisturbed } from '../../course/scale/measure.ts'

/** What is kept of blocks whose fixed work totalNs so long, on a machine that can do it in 40. */
const kept = (...works: readonly number[]) =>
  selectUndisturbed(
    works.map((work) => ({ work, totalNs: 100 })),
    40,
  ).map(({ work }) => work)

test('all values of a steady machine are kept', () => {
  expect(kept(40, 41, 47, 40)).toEqual([40, 41, 47, 40])
})

test('slowed values are omitted, and the others keep their order', () => {
  expect(kept(80, 41, 42, 40, 47, 90)).toEqual([41, 42, 40, 47])
})

test('if the machine was slow nearly always, the least affected values are kept', () => {
  expect(kept(80, 41, 70, 60, 90, 85)).toEqual([80, 41, 70, 60])
  expect(kept(80, 80, 80)).toHaveLength(2)
})

test('a block is also omitted if only its own values are slow', () => {
  const blocks = [100, 300, 101, 102].map((totalNs) => ({ work: 40, totalNs }))
  expect(selectUndisturbed(blocks, 40).map(({ totalNs }) => totalNs)).toEqual([100, 101, 102])
})
