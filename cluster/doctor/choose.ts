import type { EngineName } from '../kind/engine.ts'
import type { Facts, LabNeeds } from './facts.ts'
import { diagnose, missingEngine } from './judge.ts'

/** The existing clusters of one name, if no embedded cluster of that name runs (a running one is always chosen). */
export interface ExistingClusters {
  name: string
  /** The engine that responds. */
  engine: EngineName | undefined
  /** The engine has node containers of this name. */
  kindExists: boolean
  /** A kind cluster of this name was created from this checkout and not removed by it. */
  kindWasMade: boolean
}

/** The cluster to use, with a note if the choice may be unexpected; or why there is none. */
export type Choice = { driver: 'embedded' | 'kind'; note?: string } | { refusal: string }

/**
 * Chooses the cluster for CLUSTER=auto: the one that exists, else kind if it is available, else embedded; for a lab, one on
 * which it can run. Uses the same rules as `make doctor`. Pure.
 */
export function chooseCluster(existing: ExistingClusters, facts: Omit<Facts, 'labs'>, lab?: LabNeeds): Choice {
  const { name, engine, kindExists, kindWasMade } = existing
  if (!engine && kindWasMade) {
    const { detail, fix } = missingEngine(facts.host)
    return {
      refusal: `The kind cluster "${name}" was created here, but ${detail}: ${fix}; or CLUSTER=embedded for another cluster.`,
    }
  }
  if (!lab && kindExists) return { driver: 'kind' }
  const { places = [] } = diagnose({ ...facts, labs: [lab ?? { number: 0, kernel: [] }] }).labs[0] ?? {}
  const on = (cluster: string) => places.some((place) => place.cluster === cluster && place.reason === undefined)
  const whyNot = (cluster: string) => {
    const reasons = places.flatMap((place) => (place.cluster === cluster && place.reason ? [place.reason] : []))
    return [...new Set(reasons)].join('; ')
  }
  const order = engine ? (['kind', 'embedded'] as const) : (['embedded'] as const)
  const driver = order.find(on)
  if (driver === 'kind' || (driver && order.length === 1)) return { driver }
  if (driver) {
    const but = kindExists
      ? `Lab ${lab?.number} can't run on the kind cluster "${name}": ${whyNot('kind')}; it starts on an embedded one`
      : `${engine} answers, but ${whyNot('kind')}: using the embedded cluster`
    return { driver, note: `${but}.` }
  }
  // If an embedded cluster cannot run, its own start reports why.
  if (!lab) return { driver: 'embedded' }
  return { refusal: refusalOf(lab, order.map((one) => `not on ${one} (${whyNot(one)})`).join(', ')) }
}

/** The error message for a lab that cannot be started. */
export const refusalOf = ({ number }: Pick<LabNeeds, 'number'>, why: string) =>
  `Lab ${number} can't run here, and nothing was started: ${why}. \`make doctor\` shows how to fix it.`
