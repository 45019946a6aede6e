import type { EngineName } from '../kind/engine.ts'
import type { Facts, LabNeeds } from './facts.ts'
import { diagnose, missingEngine } from './judge.ts'

/** What exists already under a cluster name, while no embedded cluster of that name runs (a running one is always chosen). */
export interface Standing {
  name: string
  /** The engine that answers. */
  engine: EngineName | undefined
  /** The engine has node containers of this name. */
  kindExists: boolean
  /** A kind cluster of this name was made from this checkout and not removed by it. */
  kindWasMade: boolean
}

/** The cluster to use, with one line for people where that is not what they may expect; or why there is none. */
export type Choice = { driver: 'embedded' | 'kind'; note?: string } | { refusal: string }

/**
 * What CLUSTER=auto means: the cluster that is there, else kind where it can be had, else embedded; for a lab, one on which it can
 * run. By the same judgement as `make doctor`. Asks nothing.
 */
export function chooseCluster(standing: Standing, facts: Omit<Facts, 'labs'>, lab?: LabNeeds): Choice {
  const { name, engine, kindExists, kindWasMade } = standing
  if (!engine && kindWasMade) {
    const { detail, mend } = missingEngine(facts.host)
    return {
      refusal: `The kind cluster "${name}" was made here, but ${detail}: ${mend}; or CLUSTER=embedded for another cluster.`,
    }
  }
  if (!lab && kindExists) return { driver: 'kind' }
  const [verdict] = diagnose({ ...facts, labs: [lab ?? { number: 0, title: '', kernel: [] }] }).labs
  const on = verdict?.on ?? []
  const whyNot = (cluster: string) => verdict?.notOn.find((one) => one.cluster === cluster)?.reason ?? ''
  const order = engine ? (['kind', 'embedded'] as const) : (['embedded'] as const)
  const driver = order.find((one) => on.includes(one))
  if (driver === 'kind' || (driver && order.length === 1)) return { driver }
  if (driver) {
    const but = kindExists
      ? `Lab ${lab?.number} can't run on the kind cluster "${name}": ${whyNot('kind')}; it starts on an embedded one`
      : `${engine} answers, but ${whyNot('kind')}: using the embedded cluster`
    return { driver, note: `${but}.` }
  }
  // What keeps an embedded cluster from running is told by its own start.
  if (!lab) return { driver: 'embedded' }
  return { refusal: refusalOf(lab, order.map((one) => `not on ${one} (${whyNot(one)})`).join(', ')) }
}

/** The error message for a lab that cannot be started. */
export const refusalOf = ({ number }: Pick<LabNeeds, 'number'>, why: string) =>
  `Lab ${number} can't run here, and nothing was started: ${why}. \`make doctor\` shows how to fix it.`
