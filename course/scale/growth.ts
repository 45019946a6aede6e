// The growth of a measured quantity from the smallest to the largest number of Services, and the claims it supports.

/** Repeated measurements at each size, in ascending order of the sizes. */
export type Series = readonly { size: number; values: readonly number[] }[]

/** `unclear`: the measurement is compatible with the claim and with its opposite. */
export type ShapeVerdict = 'holds' | 'wrong' | 'unclear'

/** A shape needs at least this many sizes, and a spread this many values per size. */
export const MIN_SIZES = 4
export const MIN_VALUES = 3

/** A quantile by linear interpolation; `part` is between 0 and 1. NaN if there are no values. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const place = part * (sorted.length - 1)
  const [below = Number.NaN, above = below] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  return below + (above - below) * (place % 1)
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** Standard error of a median, from the interquartile range and a normal distribution, so that outliers do not affect it. */
const errorOfMedian = (values: readonly number[]) =>
  (quantile(values, 0.75) - quantile(values, 0.25)) / Math.sqrt(values.length)

/** Number of standard errors above which a difference is significant. */
const CERTAIN = 3

/**
 * The rise of the median from the smallest size to the largest, and its noise: three standard errors of a difference at the size
 * with the largest error, or the largest step of the medians in the opposite direction, which shows how much the machine drifts
 * between sizes.
 */
export function riseOf(series: Series): { rise: number; noise: number } {
  if (series.length < MIN_SIZES || series.some(({ values }) => values.length < MIN_VALUES))
    return { rise: 0, noise: Number.POSITIVE_INFINITY }
  const medians = series.map(({ values }) => median(values))
  const errors = series.map(({ values }) => errorOfMedian(values))
  const rise = (medians.at(-1) ?? 0) - (medians[0] ?? 0)
  const upwards = medians.map((value) => value * (rise < 0 ? -1 : 1))
  const backwards = upwards.map((value, index) => Math.max(...upwards.slice(0, index + 1)) - value)
  return { rise, noise: Math.max(CERTAIN * Math.SQRT2 * Math.max(...errors), ...backwards) }
}

/** Below this size no claim is `wrong`: a short list is traversed too fast to be measured. */
const SMALL = 1000
const isLong = (series: Series) => (series.at(-1)?.size ?? 0) >= SMALL

/** Whether a series rises by more than noise; `wrong` when it certainly rises by less than `least`. */
export function rises(series: Series, least: number): ShapeVerdict {
  const { rise, noise } = riseOf(series)
  if (rise > noise) return 'holds'
  return isLong(series) && rise + noise < least ? 'wrong' : 'unclear'
}

/** A series is flat compared with another one if it rises by less than this part of it. */
const FLAT = 0.25

/**
 * Whether a series is flat compared with one that rises: `unclear` if that one does not rise, or if the noise is as large as its
 * rise.
 */
export function isFlatComparedTo(series: Series, yardstick: Series): ShapeVerdict {
  const [{ rise, noise }, beside] = [riseOf(series), riseOf(yardstick)]
  if (beside.rise <= beside.noise) return 'unclear'
  if (Math.abs(rise) <= FLAT * beside.rise && noise < beside.rise) return 'holds'
  return isLong(series) && Math.abs(rise) - noise > FLAT * beside.rise ? 'wrong' : 'unclear'
}
