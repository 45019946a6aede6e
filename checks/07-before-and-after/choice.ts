import type { CheckContext } from '../../grading/check-context.ts'
import { NotApplicable, onNode } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { hasNftables, missingKernelFeatures, recordedLack } from './nftables.ts'

const README = 'labs/07-before-and-after/README.md'

/** A question with the same answer on every cluster. */
const always =
  (inspect: string, ...accepts: string[]) =>
  (): Truth => ({ accepts, inspect })

/** Question: the only mode that reacts when an endpoint refuses a connection. */
export const modeThatTriesAgain = always('make hint LAB=7 STEP=choose-retry', 'userspace')

/** Question: the current mode whose list grows with the Services: one entry in KUBE-SERVICES for each Service port. */
export const modeWithList = ({ nodes }: CheckContext): Truth => ({
  accepts: ['iptables'],
  inspect: onNode(nodes.at(-1)?.name ?? '', 'iptables -t nat -S KUBE-SERVICES'),
})

/** Question: the mode with schedulers: only a virtual server has one. */
export const modeWithScheduler = always('make ipvs SCHEDULER=lc', 'ipvs')

/** Question: the mode for thousands of Services on this kernel and kube-proxy: one without a growing list, nftables before IPVS. */
export async function modeForThousands({ live, nodes }: CheckContext): Promise<Truth> {
  const [node] = nodes
  const runs = async (mode: 'nftables' | 'ipvs') => {
    if (live) return (await missingKernelFeatures(live, nodes, mode)) === undefined
    const recorded = recordedLack(nodes, mode)
    if (!recorded) throw new NotApplicable("the kernel's features are not in this capture")
    return recorded.lacks === undefined
  }
  const answer = (mode: string): Truth => ({ accepts: [mode], inspect: 'make doctor' })
  if (node && hasNftables(node) && (await runs('nftables'))) return answer('nftables')
  return answer((await runs('ipvs')) ? 'ipvs' : 'iptables')
}

/** Question: the default mode; nftables is planned as default from 1.40 on. */
export const modeByDefault = always(`less ${README}`, 'iptables')

/** Question: the version that deprecated IPVS mode, with a warning at the start and an event (KEP-5495). */
export const ipvsDeprecation = always(`less ${README}`, '1.35', 'v1.35')
