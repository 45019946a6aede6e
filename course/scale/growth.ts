// How a measured quantity differs between the smallest and the largest number of Services, and what may be said of it.

/** What was measured several times at each size, in growing order of the sizes. */
export type Series = readonly { size: number; values: readonly number[] }[]

/** `unclear`: the measurement is compatible with the claim and with its opposite. */
export type ShapeVerdict = 'holds' | 'wrong' | 'unclear'

/** A shape needs this many sizes, a spread this many values per size. */
export const MIN_SIZES = 4
export const MIN_VALUES = 3

/** The value that this part of the values is below, between two of them in proportion. NaN for none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const place = part * (sorted.length - 1)
  const [below = Number.NaN, above = below] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  return below + (above - below) * (place % 1)
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** Standard error of a median (normal distribution), by the middle half of the values: a few bad values change neither. */
const errorOfMedian = (values: readonly number[]) =>
  (quantile(values, 0.75) - quantile(values, 0.25)) / Math.sqrt(values.length)

/** Standard errors from which a difference is no accident. */
const CERTAIN = 3

/**
 * How much the median at the largest size is above that at the smallest, and how much of that may be noise: three standard errors
 * of a difference, by the size that was measured worst, or the largest step of the medians in the other direction, which is how a
 * machine drifts between sizes.
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

/** Up to these sizes no claim is `wrong`: a short list is walked too fast to be measured. */
const SMALL = 1000
const isLong = (series: Series) => (series.at(-1)?.size ?? 0) >= SMALL

/** Whether a series rises by more than noise; `wrong` when it certainly rises by less than `least`. */
export function rises(series: Series, least: number): ShapeVerdict {
  const { rise, noise } = riseOf(series)
  if (rise > noise) return 'holds'
  return isLong(series) && rise + noise < least ? 'wrong' : 'unclear'
}

/** A series that rises by less than this part of another one is flat beside it. */
const FLAT = 0.25

/** Whether a series is flat beside one that rises: `unclear` when that one does not, or when noise is as large as its rise. */
export function isFlatBeside(series: Series, yardstick: Series): ShapeVerdict {
  const [{ rise, noise }, beside] = [riseOf(series), riseOf(yardstick)]
  if (beside.rise <= beside.noise) return 'unclear'
  if (Math.abs(rise) <= FLAT * beside.rise && noise < beside.rise) return 'holds'
  return isLong(series) && Math.abs(rise) - noise > FLAT * beside.rise ? 'wrong' : 'unclear'
}
