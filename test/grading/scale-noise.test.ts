import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  median,
  quantile,
  riseOf,
  risesClearly,
  type Series,
} from '../../course/scale/measurement.ts'
import { selectUndisturbed } from '../../course/scale/timed-requests.ts'

/** A block whose requests took that long, to the first Service and to the last. */
const block = (work: number, last: number) => ({ work, medians: [last, 0] })

/** What is kept of blocks whose fixed work took so long, on a machine that can do it in 40. */
const kept = (...works: readonly number[]) =>
  selectUndisturbed(
    works.map((work) => block(work, 100)),
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
  const blocks = [100, 300, 101, 102].map((last) => block(40, last))
  expect(selectUndisturbed(blocks, 40).map(({ medians }) => medians[0])).toEqual([100, 101, 102])
})

const level = fc.double({ min: 10, max: 5000, noNaN: true })
/** Parts by which single values are off. */
const noise = (most: number) =>
  fc.array(fc.double({ min: -most, max: most, noNaN: true }), { minLength: 20, maxLength: 20 })

/** Five values at each size, each off by its part of the noise. */
const series = (curve: (size: number) => number, off: readonly number[] = [0]): Series =>
  [10, 100, 1000, 10_000].map((size, index) => ({
    size,
    values: [0, 1, 2, 3, 4].map(
      (turn) => curve(size) * (1 + (off[(index * 5 + turn) % off.length] ?? 0)),
    ),
  }))

describe('a clear rise', () => {
  test('is found without noise and with 2% of noise', () => {
    fc.assert(
      fc.property(
        level,
        fc.double({ min: 1, max: 50, noNaN: true }),
        noise(0.02),
        (start, times, off) => {
          const line = (size: number) => start * (1 + (times * size) / 10_000)
          expect(risesClearly(series(line))).toBe(true)
          expect(risesClearly(series(line, off))).toBe(true)
        },
      ),
    )
  })

  test.each<[string, Series]>([
    ['a flat curve', series(() => 100, [0, 0.001, -0.001])],
    ['a falling curve', series((size) => 2000 - size / 10)],
    [
      'a rise that the spread hides',
      series((size) => 100 + size / 1000, [0.2, -0.2, 0.1, -0.1, 0]),
    ],
    [
      'a machine that drifts between sizes, however steady it was at each',
      [225, 203, 452, 293].map((value, index) => ({
        size: 10 ** index,
        values: [0.99 * value, value, 1.01 * value],
      })),
    ],
    ['a single size', series((size) => size).slice(0, 1)],
  ])('is not %s', (_what, values) => {
    expect(risesClearly(values)).toBe(false)
  })
})

test('median, quantile and rise, which a single outlier does not change', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(median([])).toBeNaN()
  expect(quantile([1, 2, 3, 4, 5], 0.25)).toBe(2)
  const rise = (worst: number) =>
    riseOf(
      [10, 100, 1000].map((size) => ({
        size,
        values: [1, 2, 3, 4, 5, 6, worst].map((value) => value + size),
      })),
    )
  expect(rise(1000)).toBe(990)
  expect(rise(1000)).toBe(rise(7))
})
