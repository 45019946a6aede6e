import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fitLine, growsLinearly, isFlatBeside, median, type Series, unsteadiness } from '../../course/scale/growth.ts'

const sizes = fc
  .uniqueArray(fc.integer({ min: 1, max: 900 }), { minLength: 3, maxLength: 6 })
  .chain((small) => fc.integer({ min: 1000, max: 10_000 }).map((large) => [...small, large].sort((a, b) => a - b)))
/** No two close to each other but small ones: what is the same size twice draws no line. */
const sizesApart = fc
  .uniqueArray(fc.integer({ min: 1, max: 300 }), { minLength: 3, maxLength: 6 })
  .chain((small) => fc.integer({ min: 1000, max: 10_000 }).map((large) => [...small, large].sort((a, b) => a - b)))
const level = fc.double({ min: 10, max: 5000, noNaN: true })
/** Parts by which single values are off. */
const wobble = (most: number) =>
  fc.array(fc.double({ min: -most, max: most, noNaN: true }), { minLength: 60, maxLength: 60 })

/** Five values at each size, each off by its part of the wobble. */
function series(at: readonly number[], curve: (size: number) => number, off: readonly number[]): Series {
  return at.map((size, index) => ({
    size,
    values: [0, 1, 2, 3, 4].map((turn) => curve(size) * (1 + (off[(index * 5 + turn) % off.length] ?? 0))),
  }))
}

describe('a straight line', () => {
  test('is found where there is one, and its slope and level are right', () => {
    fc.assert(
      fc.property(sizes, level, fc.double({ min: 0.2, max: 50, noNaN: true }), (at, start, times) => {
        const slope = (start * times) / (at.at(-1) ?? 1)
        const exact = series(at, (size) => start + slope * size, [0])
        expect(growsLinearly(exact)).toBe('holds')
        const line = fitLine(exact)
        expect(line.slope).toBeCloseTo(slope, 6)
        expect(line.level).toBeCloseTo(start, 4)
      }),
    )
  })

  test('with two per cent of noise is never called wrong, and holds when the rise is plain', () => {
    fc.assert(
      fc.property(
        sizesApart,
        level,
        fc.double({ min: 1, max: 50, noNaN: true }),
        wobble(0.02),
        (at, start, times, off) => {
          const slope = (start * times) / (at.at(-1) ?? 1)
          const finding = growsLinearly(series(at, (size) => start + slope * size, off))
          expect(finding).toBe('holds')
        },
      ),
    )
  })

  test('is not found in a flat curve, in a falling one, or in one that bends', () => {
    const at = [10, 100, 1000, 10_000]
    expect(growsLinearly(series(at, () => 100, [0, 0.001, -0.001]))).toBe('wrong')
    expect(growsLinearly(series(at, (size) => 2000 - size / 10, [0]))).toBe('wrong')
    expect(growsLinearly(series([10, 250, 500, 750, 1000], (size) => 1 + size * size, [0]))).not.toBe('holds')
    expect(growsLinearly(series([10, 250, 500, 750, 1000], (size) => 1 + size ** 4, [0]))).toBe('wrong')
    expect(growsLinearly(series([10, 250, 500, 750, 1000], (size) => Math.log(size), [0]))).toBe('wrong')
  })

  test('may be bent by so much as chance bends it, and by no more', () => {
    const medians = [1.65, 2.2, 23.6, 41.7, 47]
    const measured = (medians: readonly number[], spread: number) =>
      [10, 100, 1000, 1800, 3000].map((size, index) => ({
        size,
        values: [-3, -2, -1, 0, 1, 2, 3].map((step) => (medians[index] ?? 0) + step * spread),
      }))
    expect(growsLinearly(measured(medians, 4))).toBe('holds')
    expect(growsLinearly(measured(medians, 1))).toBe('unclear')
    const logarithm = [10, 100, 1000, 1800, 3000].map((size) => 9 * Math.log(size))
    for (const spread of [0.1, 1, 4, 12]) expect(growsLinearly(measured(logarithm, spread))).not.toBe('holds')
  })

  test('nobody is blamed for a list too short to be felt, or for too little', () => {
    expect(growsLinearly(series([10, 30, 60, 100], () => 100, [0]))).toBe('unclear')
    expect(growsLinearly(series([10, 100, 1000], (size) => size, [0]))).toBe('unclear')
    expect(growsLinearly([10, 20, 30, 1000].map((size) => ({ size, values: [size] })))).toBe('unclear')
  })
})

describe('a flat curve', () => {
  test('holds beside a steep one, whatever the level, with little noise', () => {
    fc.assert(
      fc.property(sizes, level, wobble(0.02), (at, start, off) => {
        expect(
          isFlatBeside(
            series(at, () => start, off),
            start,
          ),
        ).toBe('holds')
      }),
    )
  })

  test('does not hold for what rises as much as the yardstick, and is wrong when nothing else moves', () => {
    fc.assert(
      fc.property(sizes, level, wobble(0.01), (at, start, off) => {
        const [first = 0, last = 1] = [at[0], at.at(-1)]
        const rising = (offs: readonly number[]) =>
          series(at, (size) => start + (start * (size - first)) / (last - first), offs)
        expect(isFlatBeside(rising(off), start)).not.toBe('holds')
        expect(isFlatBeside(rising([0]), start)).toBe('wrong')
      }),
    )
  })

  test('without a yardstick nothing can be said', () => {
    const flat = series([10, 100, 300, 1000], () => 5, [0])
    for (const yardstick of [0, -1, Number.NaN]) expect(isFlatBeside(flat, yardstick)).toBe('unclear')
  })
})

test('noise alone is unclear, hardly ever wrong', () => {
  let state = 7
  const random = () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
  let wrong = 0
  for (let trial = 0; trial < 500; trial++) {
    const values = () => Array.from({ length: 7 }, () => 100 * (0.5 + random()))
    const noisy = [10, 100, 300, 600, 1000].map((size) => ({ size, values: values() }))
    if (growsLinearly(noisy) === 'wrong' || isFlatBeside(noisy, 2) === 'wrong') wrong++
  }
  expect(wrong / 500).toBeLessThan(0.02)
})

test("a machine that drifts between sizes is nobody's fault, however steady it was at each", () => {
  const drift: [number, number][] = [
    [10, 225],
    [100, 203],
    [1800, 452],
    [3000, 293],
  ]
  const seen = drift.map(([size, value]) => ({ size, values: [value, value + 2, value + 4] }))
  expect(growsLinearly(seen)).toBe('unclear')
  expect(isFlatBeside(seen, 100)).toBe('unclear')
})

test('the median and the unsteadiness of fixed work', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(median([])).toBeNaN()
  const work = [100, 110, 125].map((value) => ({ size: value, values: [value] }))
  expect(unsteadiness(work)).toBeCloseTo(0.25)
})

test('a machine that was busy at one size of a short list blames nobody', () => {
  // Of a run in which something else wanted the machine at the last size.
  const times = [75.8, 84.1, 78.4, 113]
  const run = (longest: number): Series =>
    times.map((time, index) => ({
      size: longest * ([0.1, 0.3, 0.6, 1][index] ?? 1),
      values: [time, time * 1.05, time * 0.95],
    }))
  expect(isFlatBeside(run(100), 25)).toBe('unclear')
  expect(isFlatBeside(run(3000), 25)).toBe('wrong')
})
