import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { configOf } from '../../grading/evaluate.ts'
import { NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { objectsOf } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { hasNftables, kernelLacks, recordedLack } from './nftables.ts'

/** A version with each mode; the facts used here are the same in later versions. */
const VERSION_WITH: Record<KubeProxyMode, string> = {
  userspace: '1.20',
  iptables: '1.34',
  ipvs: '1.34',
  nftables: '1.34',
}

/** The predicted facts of a mode, for the Services of this cluster. */
interface ModeFacts {
  mode: KubeProxyMode
  /** The number of rules that one Service adds to the list that every new connection traverses. */
  longerBy: number
  /** Virtual servers, which have a scheduler. */
  virtualServers: number
}

/** The length of the list that a packet to a Service traverses first. */
function entries({ iptables, nftables }: NodeState): number {
  const nat = iptables.get('nat')
  const list = nat?.get('KUBE-SERVICES') ?? nat?.get('KUBE-PORTALS-CONTAINER')
  return (list?.rules.length ?? 0) + (nftables?.[0]?.chains.get('services')?.rules.length ?? 0)
}

/** The objects with a copy of the Service web, under another name and address. */
function withOneMore({ snapshot }: CheckContext): ClusterObjects {
  const objects = objectsOf(snapshot)
  const { name } = webService(snapshot)
  const twin = (text: string) => (text === name ? `${name}-twin` : text)
  const services = objects.services.filter((service) => service.name === name)
  const slices = objects.endpointSlices.filter(({ serviceName }) => serviceName === name)
  return {
    ...objects,
    services: [
      ...objects.services,
      ...services.map((one) => ({ ...one, name: twin(one.name), clusterIPs: ['10.96.255.254'] })),
    ],
    endpointSlices: [
      ...objects.endpointSlices,
      ...slices.map((one) => ({ ...one, serviceName: twin(one.serviceName) })),
    ],
  }
}

/** The facts of every mode, predicted for the first node. */
function modeFacts(context: CheckContext): ModeFacts[] {
  const { snapshot, nodes } = context
  const objects = objectsOf(snapshot)
  const config = configOf(snapshot)
  const more = withOneMore(context)
  const node = nodes[0]?.name ?? ''
  return (['userspace', 'iptables', 'ipvs', 'nftables'] as const).map((mode) => {
    const programmed = (of: ClusterObjects) => predict(of, { node, mode, version: VERSION_WITH[mode], config })
    const now = programmed(objects)
    return { mode, longerBy: entries(programmed(more)) - entries(now), virtualServers: now.virtualServers.length }
  })
}

/** 1.35: a warning at the start and an event (KEP-5495). */
const IPVS_DEPRECATED_IN = '1.35'

const README = 'labs/07-before-and-after/README.md'

/** Question: the only mode that reacts when an endpoint refuses a connection. */
export const modeThatTriesAgain = (): Truth => ({
  accepts: ['userspace'],
  inspect: 'make hint LAB=7 STEP=choose-retry',
})

/** Question: the current mode whose list grows with the Services. */
export function modeWithList(context: CheckContext): Truth {
  const accepts = modeFacts(context).flatMap(({ mode, longerBy }) => (longerBy > 0 && mode !== 'userspace' ? mode : []))
  return { accepts, inspect: onNode(context.nodes.at(-1)?.name ?? '', 'iptables -t nat -S KUBE-SERVICES') }
}

/** Question: the mode with schedulers. */
export function modeWithScheduler(context: CheckContext): Truth {
  const accepts = modeFacts(context).flatMap(({ mode, virtualServers }) => (virtualServers > 0 ? mode : []))
  return { accepts, inspect: 'make ipvs SCHEDULER=lc' }
}

/**
 * Question: the mode for thousands of Services on this cluster's kernel and kube-proxy: one without a growing list, nftables
 * before IPVS.
 */
export async function modeForThousands(context: CheckContext): Promise<Truth> {
  const { live, nodes } = context
  const inspect = 'make doctor'
  const [node] = nodes
  const constant = modeFacts(context).filter(({ longerBy }) => longerBy === 0)
  const lacks = async (mode: 'nftables' | 'ipvs') => {
    if (live) return kernelLacks(live, nodes, mode)
    const recorded = recordedLack(nodes, mode)
    if (!recorded) throw new NotApplicable("the kernel's features are not in this capture")
    return recorded.lacks
  }
  const has = async (mode: 'nftables' | 'ipvs') =>
    constant.some((facts) => facts.mode === mode) && (await lacks(mode)) === undefined
  if (node && hasNftables(node) && (await has('nftables'))) return { accepts: ['nftables'], inspect }
  return { accepts: [(await has('ipvs')) ? 'ipvs' : 'iptables'], inspect }
}

/** Question: the default mode; nftables is planned as default from 1.40 on. */
export const modeByDefault = (): Truth => ({ accepts: ['iptables'], inspect: `less ${README}` })

/** Question: the version that deprecated IPVS mode. */
export const ipvsDeprecation = (): Truth => ({
  accepts: [IPVS_DEPRECATED_IN, `v${IPVS_DEPRECATED_IN}`],
  inspect: `less ${README}`,
})
