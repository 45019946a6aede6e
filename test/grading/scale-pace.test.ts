import { expect, test } from 'vitest'
import { selectUndisturbed } from '../../course/scale/measure.ts'

/** What is kept of blocks whose fixed work totalNs so long, on a machine that can do it in 40. */
const kept = (...works: readonly number[]) =>
  selectUndisturbed(
    works.map((work) => ({ work, totalNs: 100 })),
    40,
  ).map(({ work }) => work)

test('of a steady machine everything is kept', () => {
  expect(kept(40, 41, 47, 40)).toEqual([40, 41, 47, 40])
})

test('what was slowed down is left out, and the rest stays in order', () => {
  expect(kept(80, 41, 42, 40, 47, 90)).toEqual([41, 42, 40, 47])
})

test('of a machine that was slowed down nearly always, what suffered least is kept', () => {
  expect(kept(80, 41, 70, 60, 90, 85)).toEqual([80, 41, 70, 60])
  expect(kept(80, 80, 80)).toHaveLength(2)
})

test('a block can also be slow by itself, with the work as fast as ever', () => {
  const blocks = [100, 300, 101, 102].map((totalNs) => ({ work: 40, totalNs }))
  expect(selectUndisturbed(blocks, 40).map(({ totalNs }) => totalNs)).toEqual([100, 101, 102])
})
