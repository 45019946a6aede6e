// How a measured quantity grows with the number of Services: a straight line through several sizes, and what may be said of it.

/** What was measured at one size, several times. */
export interface Sample {
  size: number
  values: readonly number[]
}
export type Series = readonly Sample[]

/** A straight line through the medians of a series. */
export interface Line {
  /** At size 0. */
  level: number
  /** More for each Service. */
  slope: number
  /** More at the largest size than at the smallest. */
  rise: number
  /** Standard error of the rise, from the spread at each size and from the distance of the medians to the line. */
  error: number
  /** Root mean square distance of the medians to the line. */
  distance: number
  /** Standard error of one median. */
  spread: number
  /** Error and spread with every outlier included: a claim is `wrong` only beyond these. */
  errorAtWorst: number
  spreadAtWorst: number
}

/** `unclear`: the measurement is compatible with the claim and with its opposite. */
export type ShapeVerdict = 'holds' | 'wrong' | 'unclear'

/** A shape needs this many sizes, a spread this many values per size. */
export const MIN_SIZES = 4
export const MIN_VALUES = 3

const square = (value: number) => value * value
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** The middle value; of an even number of them, the mean of the two in the middle. NaN for none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** With fewer values, the typical distance from the median is not reliable. */
const MANY = 7
/** Ratio of the standard error of a median to that of a mean (normal distribution). */
const PRICE_OF_MEDIAN = 1.2533

/**
 * Standard error of a median: `typical` by the usual distance from it, to which a few bad values do nothing, as they do nothing to the
 * median; `atWorst` by the standard deviation, which they make larger.
 */
function errorsOfMedian(values: readonly number[]): { typical: number; atWorst: number } {
  const mean = sum(values) / values.length
  const variance = sum(values.map((value) => square(value - mean))) / Math.max(1, values.length - 1)
  const price = PRICE_OF_MEDIAN / Math.sqrt(values.length)
  const atWorst = price * Math.sqrt(variance)
  if (values.length < MANY) return { typical: atWorst, atWorst }
  const middle = median(values)
  return { typical: price * 1.4826 * median(values.map((value) => Math.abs(value - middle))), atWorst }
}

/** True when there is enough of a series to tell a shape: four sizes or more, three values each or more, all finite. */
export const isEnough = (series: Series): boolean =>
  new Set(series.map(({ size }) => size)).size >= MIN_SIZES &&
  series.every(({ values }) => values.length >= MIN_VALUES && values.every(Number.isFinite))

/** Least squares through the medians. The series has at least three different sizes. */
export function fitLine(series: Series): Line {
  const points = series.map(({ size, values }) => ({ x: size, y: median(values), ...errorsOfMedian(values) }))
  const meanX = sum(points.map(({ x }) => x)) / points.length
  const meanY = sum(points.map(({ y }) => y)) / points.length
  const spanSquares = sum(points.map(({ x }) => square(x - meanX)))
  const slope = sum(points.map(({ x, y }) => (x - meanX) * (y - meanY))) / spanSquares
  const level = meanY - slope * meanX
  const residuals = points.map(({ x, y }) => y - level - slope * x)
  const distance = Math.sqrt(sum(residuals.map(square)) / Math.max(1, points.length - 2))
  // Spread is pooled: of a few values at one size it can be small by accident.
  const pooled = (errors: readonly number[]) => Math.sqrt(sum(errors.map(square)) / errors.length)
  const spread = pooled(points.map(({ typical }) => typical))
  const spreadAtWorst = pooled(points.map(({ atWorst }) => atWorst))
  const sizes = points.map(({ x }) => x)
  const span = Math.max(...sizes) - Math.min(...sizes)
  const errorOfRise = (of: number) => (span * Math.max(distance, of)) / Math.sqrt(spanSquares)
  const [error, errorAtWorst] = [errorOfRise(spread), errorOfRise(spreadAtWorst)]
  return { level, slope, rise: slope * span, error, distance, spread, errorAtWorst, spreadAtWorst }
}

/** A rise below this part of the level is none, where there are Services enough to show one. */
const NO_RISE = 0.02
/** Up to these sizes no claim is `wrong`: a short list is walked too fast to be measured. */
const SMALL = 1000
/**
 * Medians may be so far off the line, as a part of its rise; caches bend it a little. From `BENT` on it is surely no line: that of
 * a logarithm is at 0.25, that of a square between the two.
 */
const STRAIGHT = 0.12
const BENT = 0.2
const CERTAIN = 3
/** Between the two, medians that are no further off than they would be by chance say nothing against a line. */
const BY_CHANCE = 1.5
/** Distances up to this multiple of the spread count as noise. */
const BY_SPREAD = 4

const largest = (series: Series) => Math.max(...series.map(({ size }) => size))

/**
 * Whether a series goes up and down by more than its spread: that is how a machine drifts between sizes, which no spread at one
 * size shows, and no law of growth.
 */
function wanders(series: Series, spread: number, falls = false): boolean {
  const medians = [...series].sort((a, b) => a.size - b.size).map(({ values }) => median(values) * (falls ? -1 : 1))
  return medians.some((value, index) => value < Math.max(...medians.slice(0, index)) - CERTAIN * spread)
}

/**
 * Whether a series grows by the same amount for every Service: a straight line that surely rises. `besides` is what a rise is
 * small beside, the line's own level when missing.
 */
export function growsLinearly(series: Series, besides?: number): ShapeVerdict {
  if (!isEnough(series)) return 'unclear'
  const line = fitLine(series)
  const { rise, error, distance, spread, errorAtWorst, spreadAtWorst } = line
  const noRise = NO_RISE * (besides ?? Math.abs(line.level))
  const off = distance / Math.abs(rise)
  const isStraight = off <= STRAIGHT || (off <= BENT && distance <= BY_CHANCE * spread)
  if (isStraight && rise > CERTAIN * error) return 'holds'
  if (largest(series) < SMALL || wanders(series, spreadAtWorst, rise < 0)) return 'unclear'
  if (off > BENT && distance > BY_SPREAD * spreadAtWorst && distance > noRise) return 'wrong'
  const falls = rise + CERTAIN * errorAtWorst < 0
  const still = rise + CERTAIN * errorAtWorst < noRise
  return falls || still ? 'wrong' : 'unclear'
}

/** A series that rises by less than this part of the yardstick is flat beside it. */
const FLAT = 0.25

/**
 * Whether a series is flat beside another one that rises by `yardstick`: from the smallest size to the largest it rises by
 * less than a quarter of that, and no size is further off.
 */
export function isFlatBeside(series: Series, yardstick: number): ShapeVerdict {
  if (!isEnough(series) || !(yardstick > 0)) return 'unclear'
  const { rise, error, spread, errorAtWorst, spreadAtWorst } = fitLine(series)
  const medians = series.map(({ values }) => median(values))
  const centre = median(medians)
  const furthest = Math.max(...medians.map((value) => Math.abs(value - centre)))
  const allowed = FLAT * yardstick
  if (Math.abs(rise) + error <= allowed && furthest <= allowed + 2 * spread) return 'holds'
  // Beside a short list's rise, a machine that was busy at one size looks like growth.
  if (largest(series) < SMALL) return 'unclear'
  const surely = Math.abs(rise) - CERTAIN * errorAtWorst > allowed || furthest - BY_SPREAD * spreadAtWorst > 2 * allowed
  return surely && !wanders(series, spreadAtWorst, rise < 0) ? 'wrong' : 'unclear'
}

/** How far the slowest size is from the fastest in work that has nothing to do with size: 0.1 is ten per cent. */
export function unsteadiness(series: Series): number {
  const medians = series.map(({ values }) => median(values))
  return Math.max(...medians) / Math.min(...medians) - 1
}
