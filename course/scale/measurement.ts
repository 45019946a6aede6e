import * as z from 'zod'

const values = z.array(z.number().nonnegative()).min(1).max(200)
const differences = z.array(z.number()).min(1).max(200)
const count = z.number().int().nonnegative()

const pointSchema = z.strictObject({
  services: count,
  /** Rules of all tables, and those of nat KUBE-SERVICES. */
  rules: count,
  entries: count,
  /** Members of KUBE-CLUSTER-IP, virtual servers and real servers. */
  members: count,
  virtualServers: count,
  realServers: count,
  /** Programming an empty node: elapsed and CPU time in milliseconds. */
  programMs: z.number().nonnegative(),
  programCpuMs: z.number().nonnegative(),
  /**
   * Replacing one endpoint of one Service, the faster half of the changes: elapsed and CPU time in
   * milliseconds.
   */
  changeMs: values,
  changeCpuMs: values,
  /** A request to the last Service on a new and on an open connection, in microseconds. */
  newMicros: values,
  keptMicros: values,
  /** The difference to the same request to the first Service in the same round. */
  newMoreMicros: differences,
  keptMoreMicros: differences,
  /** Fixed work without network, in microseconds: its variation is caused by the machine. */
  workMicros: values,
  /**
   * Share of the time that the node was busy at the fixed rate of new connections to the last
   * Service, and the difference to the first.
   */
  busy: values,
  busyMore: differences,
})

const aboutRun = {
  at: z.string(),
  machine: z.string().max(300),
  endpoints: count,
  /** New connections per second for `busy`. */
  rate: z.number().positive(),
  seconds: z.number().nonnegative(),
}
const points = z.array(pointSchema).min(1).max(20)

/** Whether all curves have the same sizes, in ascending order. */
function haveSameSizes(curves: readonly (readonly { services: number }[])[]): boolean {
  const [first = [], ...others] = curves.map((curve) => curve.map(({ services }) => services))
  const isRising = first.every((size, index) => index === 0 || size > (first[index - 1] ?? size))
  return isRising && others.every((sizes) => sizes.join() === first.join())
}

/** One run: both modes on the same node at the same sizes, in ascending order. */
export const measurement = z
  .strictObject({ ...aboutRun, iptables: points, ipvs: points })
  .refine(({ iptables, ipvs }) => haveSameSizes([iptables, ipvs]))

/**
 * What is measured on this machine's own kernel, which can do what User-Mode Linux can't, in the
 * order of their age.
 */
export const HOST_CURVES = ['iptables-legacy', 'iptables-nft', 'nftables'] as const
export type HostCurve = (typeof HOST_CURVES)[number]

/** One run on this machine's own kernel: each curve on a node of its own, at the same sizes. */
export const hostMeasurement = z
  .strictObject({
    ...aboutRun,
    curves: z
      .array(z.strictObject({ curve: z.enum(HOST_CURVES), points }))
      .min(1)
      .max(3),
  })
  .refine(({ curves }) => haveSameSizes(curves.map(({ points }) => points)))
  .refine(({ curves }) => curves.some(({ curve }) => curve === 'nftables'))
export type HostMeasurement = z.infer<typeof hostMeasurement>

/** One mode at one number of Services. */
export type Point = z.infer<typeof pointSchema>
export type Measurement = z.infer<typeof measurement>

/** The note of the last run in the ConfigMap lab-6. */
export const MEASUREMENT = 'measurement'
/** The same for this machine's own kernel. */
export const HOST_MEASUREMENT = 'measurement-host'

/** Why that kernel can't be measured, in a sentence. */
export const HOST_TROUBLE = 'measurement-host-trouble'

/** A quantity that is measured several times at each size. */
export type Quantity = 'changeMs' | 'newMoreMicros' | 'keptMoreMicros' | 'workMicros' | 'busyMore'

/** Repeated measurements at each size, in ascending order of the sizes. */
export type Series = readonly { size: number; values: readonly number[] }[]

/** A quantity of one mode over the sizes. */
export const seriesOf = (points: readonly Point[], quantity: Quantity): Series =>
  points.map((point) => ({ size: point.services, values: point[quantity] }))

/** A quantile by linear interpolation; `part` is between 0 and 1. NaN if there are no values. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const place = part * (sorted.length - 1)
  const [below = Number.NaN, above = below] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  return below + (above - below) * (place % 1)
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** How much the median rises from the smallest size to the largest. */
export const riseOf = (series: Series): number =>
  median(series.at(-1)?.values ?? []) - median(series[0]?.values ?? [])

/**
 * True if three quarters of the values at the largest size are above three quarters of those at
 * every other size.
 */
export function risesClearly(series: Series): boolean {
  const low = quantile(series.at(-1)?.values ?? [], 0.25)
  return (
    series.length > 1 && series.slice(0, -1).every(({ values }) => quantile(values, 0.75) < low)
  )
}

/** The measurement at the largest size. Throws RangeError if there is none. */
export function largestPoint(points: readonly Point[]): Point {
  const last = points.at(-1)
  if (!last) throw new RangeError('a measurement has at least one size')
  return last
}
