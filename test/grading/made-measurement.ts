import {
  HOST_CURVES,
  type HostCurve,
  type HostMeasurement,
  type Measurement,
  type Point,
  type Quantity,
} from '../../course/scale/measurement.ts'
import {
  type Counts,
  countState,
  countTable,
  MEASURED_NODE,
  MEASURED_VERSION,
  SERVER,
  syntheticCluster,
} from '../../course/scale/synthetic-cluster.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'

/** What each quantity is at a size. */
export type Curves = Record<Quantity, (services: number) => number>

/** As measured on a quiet machine: iptables grows by the Service, IPVS does not. */
export const usual: Record<SwitchedMode, Curves> = {
  iptables: {
    changeMs: (services) => 35 + services * 0.1,
    newMoreMicros: (services) => services * 0.02,
    keptMoreMicros: () => 0,
    workMicros: () => 40,
    busyMore: (services) => services * 8e-6,
  },
  ipvs: {
    changeMs: () => 30,
    newMoreMicros: () => 0,
    keptMoreMicros: () => 0,
    workMicros: () => 40,
    busyMore: () => 0,
  },
}

/** The same on a machine's own kernel, which is faster. */
export const usualOnHost: Record<HostCurve, Curves> = {
  'iptables-legacy': { ...usual.iptables, newMoreMicros: (services) => services * 0.005 },
  'iptables-nft': { ...usual.iptables, newMoreMicros: (services) => services * 0.01 },
  nftables: { ...usual.ipvs, changeMs: (services) => 28 + services * 0.03 },
}

/** How far single values are off, by a number from -1 to 1. */
export type Noise = Partial<Record<Quantity, number>>

/** Numbers from -1 to 1 that are the same at each run. */
export function wobble(seed: number): () => number {
  let state = (seed * 7919 + 13) % 2_147_483_647
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return (state / 2_147_483_647) * 2 - 1
  }
}

const predicted = new Map<string, Counts>()

function predictedCounts(mode: KubeProxyMode, services: number, endpoints: number): Counts {
  const key = `${mode} ${services} ${endpoints}`
  const known = predicted.get(key)
  if (known) return known
  const { objects } = readObjects(syntheticCluster(services, endpoints, SERVER))
  const state = predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION })
  const counts = state.nftables ? countTable(state.nftables) : countState(state)
  predicted.set(key, counts)
  return counts
}

const REPEATS = 9
const level = { newMicros: 600, keptMicros: 150, busy: 0.25 }

/** One curve with the counts that kube-proxy of a mode comes to. */
function madePoints(
  mode: KubeProxyMode,
  sizes: readonly number[],
  curve: Curves,
  endpoints: number,
  { noise, random }: { noise: Noise; random: () => number },
): Point[] {
  const pointAt = (services: number): Point => {
    const values = (quantity: Quantity) =>
      Array.from(
        { length: REPEATS },
        () => curve[quantity](services) + (noise[quantity] ?? 0) * random(),
      )
    const above = (quantity: Quantity) => values(quantity).map((value) => Math.max(0, value))
    const whole = (base: number, more: readonly number[]) =>
      more.map((value) => Math.max(0, base + value))
    const [newMoreMicros, keptMoreMicros, busyMore] = [
      values('newMoreMicros'),
      values('keptMoreMicros'),
      values('busyMore'),
    ]
    return {
      services,
      ...predictedCounts(mode, services, endpoints),
      programMs: services,
      programCpuMs: services,
      changeMs: above('changeMs'),
      changeCpuMs: above('changeMs'),
      newMicros: whole(level.newMicros, newMoreMicros),
      newMoreMicros,
      keptMicros: whole(level.keptMicros, keptMoreMicros),
      keptMoreMicros,
      workMicros: above('workMicros'),
      busy: whole(level.busy, busyMore),
      busyMore,
    }
  }
  return sizes.map(pointAt)
}

const aboutRun = (endpoints: number) => ({
  at: '2026-11-21T10:00:00.000Z',
  machine: 'a made machine',
  endpoints,
  rate: 400,
  seconds: 60,
})

/** A run whose counts are those that kube-proxy comes to, with such curves and such noise. */
export function madeRun(
  sizes: readonly number[],
  curves: Record<SwitchedMode, Curves> = usual,
  noise: Noise = {},
  seed = 1,
  endpoints = 1,
): Measurement {
  const random = wobble(seed)
  const points = (mode: SwitchedMode) =>
    madePoints(mode, sizes, curves[mode], endpoints, { noise, random })
  return { ...aboutRun(endpoints), iptables: points('iptables'), ipvs: points('ipvs') }
}

/** The same of `make measure NFT=1`, without the curves that a kernel lacks. */
export function madeHostRun(
  sizes: readonly number[],
  curves: Partial<Record<HostCurve, Curves>> = usualOnHost,
  noise: Noise = {},
  seed = 1,
): HostMeasurement {
  const random = wobble(seed)
  return {
    ...aboutRun(1),
    curves: HOST_CURVES.flatMap((curve) => {
      const made = curves[curve]
      const mode = curve === 'nftables' ? 'nftables' : 'iptables'
      return made ? [{ curve, points: madePoints(mode, sizes, made, 1, { noise, random }) }] : []
    }),
  }
}
