import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { modeFacts } from './mode-facts.ts'
import { hasNftables, kernelLacks, recordedLack } from './nftables-here.ts'

/** 1.35: a warning at the start and an event (KEP-5495). */
const IPVS_DEPRECATED_IN = '1.35'

const README = 'labs/07-before-and-after/README.md'

/** Question: who alone does something when an endpoint does not take a connection. */
export const modeThatTriesAgain = (): Truth => ({ accepts: ['userspace'], look: 'make hint LAB=7 STEP=choose-retry' })

/** Question: the mode of today whose list grows with the Services. */
export function modeWithList(context: CheckContext): Truth {
  const accepts = modeFacts(context).flatMap(({ mode, longerBy }) => (longerBy > 0 && mode !== 'userspace' ? mode : []))
  return { accepts, look: onNode(context.nodes.at(-1)?.name ?? '', 'iptables -t nat -S KUBE-SERVICES') }
}

/** Question: the mode with schedulers. */
export function modeWithScheduler(context: CheckContext): Truth {
  const accepts = modeFacts(context).flatMap(({ mode, virtualServers }) => (virtualServers > 0 ? mode : []))
  return { accepts, look: 'make ipvs SCHEDULER=lc' }
}

/** Question: the mode for thousands of Services that kernel and kube-proxy of this cluster can run: not with a list, and the one with a future first. */
export async function modeForThousands(context: CheckContext): Promise<Truth> {
  const { live, nodes } = context
  const look = 'make doctor'
  const [node] = nodes
  const constant = modeFacts(context).filter(({ longerBy }) => longerBy === 0)
  const lacks = async (mode: 'nftables' | 'ipvs') => {
    if (live) return kernelLacks(live, nodes, mode)
    const recorded = recordedLack(nodes, mode)
    if (!recorded) throw new NotApplicable('what the kernel of the nodes can do is not in this capture')
    return recorded.lacks
  }
  const has = async (mode: 'nftables' | 'ipvs') =>
    constant.some((facts) => facts.mode === mode) && (await lacks(mode)) === undefined
  if (node && hasNftables(node) && (await has('nftables'))) return { accepts: ['nftables'], look }
  return { accepts: [(await has('ipvs')) ? 'ipvs' : 'iptables'], look }
}

/** Question: what runs where nobody has chosen; the plan is nftables from 1.40 on. */
export const modeByDefault = (): Truth => ({ accepts: ['iptables'], look: `less ${README}` })

/** Question: when IPVS mode was deprecated. */
export const ipvsDeprecation = (): Truth => ({
  accepts: [IPVS_DEPRECATED_IN, `v${IPVS_DEPRECATED_IN}`],
  look: `less ${README}`,
})
