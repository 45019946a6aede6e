import { type Counts, countState, MEASURED_NODE, MEASURED_VERSION } from '../../course/scale/held-state.ts'
import { syntheticCluster } from '../../course/scale/synthetic-cluster.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { Figure } from './canvas.ts'
import { curvesFigure } from './curves.ts'

const SIZES = [10, 250, 500, 750, 1000]

const known = new Map<number, Record<SwitchedMode, Counts>[]>()

/** What a node must hold at each size, in either mode; worked out once. */
function countsAt(endpoints: number): Record<SwitchedMode, Counts>[] {
  const before = known.get(endpoints)
  if (before) return before
  const counts = SIZES.map((services) => {
    const { objects } = readObjects(syntheticCluster(services, endpoints))
    const count = (mode: SwitchedMode) =>
      countState(predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION }))
    return { iptables: count('iptables'), ipvs: count('ipvs') }
  })
  known.set(endpoints, counts)
  return counts
}

/** How the rules of a node grow with the Services, by the prediction of what kube-proxy programs. */
export function ruleGrowthFigure(endpoints: number): Figure {
  const counts = countsAt(endpoints)
  const values = (mode: SwitchedMode) => counts.map((at) => at[mode].rules)
  const last = (mode: SwitchedMode) => values(mode).at(-1) ?? 0
  return curvesFigure(
    SIZES,
    [
      { name: 'iptables', values: values('iptables'), tone: 'way' },
      { name: 'IPVS', values: values('ipvs'), tone: 'strong' },
    ],
    `Rules of a node with ${SIZES.at(-1)} Services of ${endpoints} endpoints: ${last('iptables')} in iptables mode, ${last('ipvs')} in IPVS mode.`,
  )
}
