import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isFlatComparedTo, median, quantile, riseOf, rises, type Series } from '../../course/scale/growth.ts'

const sizes = fc
  .uniqueArray(fc.integer({ min: 1, max: 300 }), { minLength: 3, maxLength: 6 })
  .chain((small) => fc.integer({ min: 1000, max: 10_000 }).map((large) => [...small, large].sort((a, b) => a - b)))
const level = fc.double({ min: 10, max: 5000, noNaN: true })
/** Parts by which single values are off. */
const wobble = (most: number) =>
  fc.array(fc.double({ min: -most, max: most, noNaN: true }), { minLength: 60, maxLength: 60 })

/** Five values at each size, each off by its part of the wobble. */
function series(at: readonly number[], curve: (size: number) => number, off: readonly number[] = [0]): Series {
  return at.map((size, index) => ({
    size,
    values: [0, 1, 2, 3, 4].map((turn) => curve(size) * (1 + (off[(index * 5 + turn) % off.length] ?? 0))),
  }))
}
const decades = [10, 100, 1000, 10_000]
/** From 0 to 100. */
const yardstick = series(decades, (size) => size / 100)

describe('a rise', () => {
  test('holds where it is plain, with two per cent of noise and with none', () => {
    fc.assert(
      fc.property(sizes, level, fc.double({ min: 1, max: 50, noNaN: true }), wobble(0.02), (at, start, times, off) => {
        const line = (size: number) => start * (1 + (times * size) / (at.at(-1) ?? 1))
        expect(rises(series(at, line), start / 10)).toBe('holds')
        expect(rises(series(at, line, off), start / 10)).toBe('holds')
      }),
    )
  })

  test('does not hold in a flat curve, nor in a falling one', () => {
    expect(
      rises(
        series(decades, () => 100, [0, 0.001, -0.001]),
        10,
      ),
    ).toBe('wrong')
    expect(
      rises(
        series(decades, (size) => 2000 - size / 10),
        10,
      ),
    ).toBe('wrong')
  })

  test('is told of no list too short to be felt, and of no run too short', () => {
    expect(
      rises(
        series([10, 30, 60, 100], () => 100),
        10,
      ),
    ).toBe('unclear')
    expect(
      rises(
        series([10, 100, 1000], (size) => size),
        10,
      ),
    ).toBe('unclear')
    const once = decades.map((size) => ({ size, values: [size] }))
    expect(rises(once, 10)).toBe('unclear')
    expect(isFlatComparedTo(once, yardstick)).toBe('unclear')
  })
})

describe('a flat curve', () => {
  test('holds beside one that rises, whatever the level, with little noise', () => {
    fc.assert(
      fc.property(sizes, level, wobble(0.02), (at, start, off) => {
        const beside = series(at, (size) => start * (1 + (10 * size) / (at.at(-1) ?? 1)))
        expect(
          isFlatComparedTo(
            series(at, () => start, off),
            beside,
          ),
        ).toBe('holds')
      }),
    )
  })

  test('is wrong for what rises as much as the other one', () => {
    expect(isFlatComparedTo(yardstick, yardstick)).toBe('wrong')
    expect(
      isFlatComparedTo(
        series(decades, (size) => -size / 100),
        yardstick,
      ),
    ).toBe('wrong')
  })

  test('is unclear beside one that does not rise', () => {
    for (const curve of [() => 0, () => Number.NaN, (size: number) => -size])
      expect(
        isFlatComparedTo(
          series(decades, () => 5),
          series(decades, curve),
        ),
      ).toBe('unclear')
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
    if (
      rises(noisy, 2) === 'wrong' ||
      isFlatComparedTo(
        noisy,
        series([10, 100, 300, 1000], (size) => size / 500),
      ) === 'wrong'
    )
      wrong++
  }
  expect(wrong / 500).toBeLessThan(0.02)
})

const steadyAtEach = (points: readonly (readonly [number, number])[]) =>
  points.map(([size, value]) => ({ size, values: [value * 0.99, value, value * 1.01] }))

test('a machine that drifts between sizes is to blame for it, however steady it was at each', () => {
  const drift = steadyAtEach([
    [10, 225],
    [100, 203],
    [1800, 452],
    [3000, 293],
  ])
  expect(rises(drift, 10)).toBe('unclear')
  expect(isFlatComparedTo(drift, yardstick)).toBe('unclear')
})

test('a machine that was busy at one size of a short list is to blame for it', () => {
  const run = (longest: number) =>
    steadyAtEach(
      [
        [0.1, 75.8],
        [0.3, 84.1],
        [0.6, 78.4],
        [1, 113],
      ].map(([part = 0, ms = 0]) => [part * longest, ms]),
    )
  expect(isFlatComparedTo(run(100), yardstick)).toBe('unclear')
  expect(
    isFlatComparedTo(
      run(3000),
      series(decades, (size) => size / 400),
    ),
  ).toBe('wrong')
})

test('a median, a quantile and what a few bad values change', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(median([])).toBeNaN()
  expect(quantile([1, 2, 3, 4, 5], 0.25)).toBe(2)
  const values = (worst: number) => [1, 2, 3, 4, 5, 6, worst]
  const rise = (worst: number) =>
    riseOf(decades.map((size) => ({ size, values: values(worst).map((value) => value + size) })))
  expect(rise(1000)).toEqual(rise(7))
})
