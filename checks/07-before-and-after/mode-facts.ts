import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { webService } from '../../grading/web-service.ts'

/** A version that has each mode; what is asked of it has not changed since. */
const VERSION_WITH: Record<KubeProxyMode, string> = {
  userspace: '1.20',
  iptables: '1.34',
  ipvs: '1.34',
  nftables: '1.34',
}

/** What the prediction says of a mode, from the Services of this cluster. */
export interface ModeFacts {
  mode: KubeProxyMode
  /** Rules that one more Service adds to the list which every new connection is held against. */
  longerBy: number
  /** Virtual servers, which have a scheduler. */
  virtualServers: number
}

/** The list that a packet to a Service meets first. */
function entries({ iptables, nftables }: NodeState): number {
  const nat = iptables.get('nat')
  const list = nat?.get('KUBE-SERVICES') ?? nat?.get('KUBE-PORTALS-CONTAINER')
  return (list?.rules.length ?? 0) + (nftables?.[0]?.chains.get('services')?.rules.length ?? 0)
}

/** The objects with the Service web there once more, under another name and address. */
function withOneMore({ snapshot }: CheckContext): ClusterObjects {
  const { objects } = snapshot
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

/** The facts of every mode, worked out for the first node. */
export function modeFacts(context: CheckContext): ModeFacts[] {
  const { snapshot, nodes } = context
  const { objects } = snapshot
  const config = configOf(snapshot)
  const more = withOneMore(context)
  const node = nodes[0]?.name ?? ''
  return (['userspace', 'iptables', 'ipvs', 'nftables'] as const).map((mode) => {
    const programmed = (of: ClusterObjects) => predict(of, { node, mode, version: VERSION_WITH[mode], config })
    const now = programmed(objects)
    return { mode, longerBy: entries(programmed(more)) - entries(now), virtualServers: now.virtualServers.length }
  })
}
