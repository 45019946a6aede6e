import { hasCondition } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode } from '../../grading/expect-node.ts'
import { expectFound, podsWithLabel } from '../../grading/expect-object.ts'
import { NotApplicable } from '../../grading/failure.ts'
import type { NodeView } from '../../grading/snapshot.ts'
import { hasOutside, OUTSIDE } from '../../host/outside.ts'

const MANIFEST = 'labs/04-lvs/manifests/real-server.yaml'
const CONTROL_PLANE = 'node-role.kubernetes.io/control-plane'

/** Who plays which part in this lab. */
export interface Stage {
  director: NodeView
  directorAddress: string
  /** One on each worker, in the order of the nodes' names. */
  realServers: RealNode[]
}

export interface RealNode {
  node: string
  address: string
  pod: string
}

/** Director and real servers. Fails when one is missing; a kernel without IPVS and a cluster without an outside can't have this lab. */
export async function lvsStage(context: CheckContext): Promise<Stage> {
  const { snapshot, live } = context
  if (live && !hasOutside(live.cluster))
    throw new NotApplicable(
      `it needs a machine outside the cluster, which only a cluster of this kit has ("${OUTSIDE}")`,
    )
  const name = snapshot.items.find(
    ({ kind, metadata }) => kind === 'Node' && metadata.labels?.[CONTROL_PLANE] !== undefined,
  )?.metadata.name
  const director = expectFound(
    snapshot.nodes.find((node) => node.name === name),
    {
      look: `kubectl get nodes -l ${CONTROL_PLANE}`,
      expected: 'a control-plane node, which is the director of this lab',
    },
  )
  await mustHaveIpvs(context, director)
  const ready = readyRealServers(context)
  const realServers = expectFound(ready.length < 2 ? undefined : ready.slice(0, 2), {
    look: 'kubectl get pods -l app=real-server -o wide',
    expected: 'a real server that is ready on each of two workers',
    actual: ready.length === 0 ? 'none' : `one, on ${ready[0]?.node}`,
    hint: `kubectl apply -f ${MANIFEST}`,
  })
  const directorAddress = snapshot.objects.nodes.find((node) => node.name === director.name)?.internalIPs[0] ?? ''
  return { director, directorAddress, realServers }
}

function readyRealServers({ snapshot }: CheckContext): RealNode[] {
  return podsWithLabel(snapshot, 'real-server')
    .filter((pod) => hasCondition(pod, 'Ready'))
    .map(({ metadata, spec, status }) => {
      return { node: spec?.nodeName ?? '', address: status?.podIP ?? '', pod: metadata.name }
    })
    .sort((one, other) => one.node.localeCompare(other.node))
}

/** ipvsadm runs on the director; a kernel that lacks ip_vs costs no points. */
async function mustHaveIpvs({ live }: CheckContext, director: NodeView): Promise<void> {
  if (director.text('ipvsadm-save') !== undefined) return
  const probe = await live?.onNode(director.name, '[ -e /proc/net/ip_vs ] || modprobe ip_vs')
  if (probe && probe.exitCode !== 0)
    throw new NotApplicable(`the kernel under ${director.name} has no IPVS (module ip_vs); CLUSTER=embedded has it`)
  expectNode(director).run({ ipvsadm: 'ipvsadm-save' }, 'ipvsadm -Ln', {
    expected: 'ipvsadm running on the director',
    hint: 'make tools installs it.',
  })
}
