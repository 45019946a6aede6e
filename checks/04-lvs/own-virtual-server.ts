import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectMode, expectNode } from '../../grading/expect-node.ts'
import { expectField } from '../../grading/expect-object.ts'
import { REAL_PORT, VIP, VIPS } from './addresses.ts'
import { askFromOutside, countOf, mustBeAnswered, tally } from './outside-client.ts'
import { lvsStage, type Stage } from './stage.ts'
import { expectScheduling, mustHold } from './virtual-server.ts'

const REQUESTS = 4
const FIRST = `${VIP}:${REAL_PORT.masq}`
const NOTE = 'spared-by-kube-proxy'
const isTrue = (value: unknown): value is true => value === true

/** A virtual server of the learner's own answers the machine outside, by each real server in turn. */
export async function virtualServerAnswers(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  mustHold(stage, { key: `TCP ${FIRST}`, scheduler: 'rr', forward: 'masq', weights: [1, 1] })
  mustOwn(stage, VIP)
  const { live } = context
  if (!live) return
  const requests = Array.from({ length: REQUESTS }, () => ({ to: FIRST }))
  const answers = await askFromOutside(live, requests)
  mustBeAnswered(
    stage,
    requests,
    answers,
    `Outside needs a route to ${VIP} via the director, and the director net.ipv4.vs.conntrack=1, so that answers come back through it.`,
  )
  const { realServers } = stage
  const nodes = realServers.map(({ node }) => node)
  expectScheduling(stage, {
    holds: nodes.every((node) => countOf(answers, node) === REQUESTS / 2),
    expected: `${REQUESTS} answers to ${REQUESTS} requests, ${REQUESTS / 2} of each real server`,
    actual: tally(answers, nodes),
  })
}

/** The director has that address: without it, packets for it would never come in. */
export const mustOwn = ({ director }: Stage, address: string): void =>
  expectNode(director).hasAddress(address, {
    expected: `${address} as an address of the director`,
    why: 'IPVS sits at LOCAL_IN. Only packets for an address of the node itself get there.',
  })

/** kube-proxy ran in IPVS mode, was told which addresses are not its own, and left the learner's virtual server alone. */
export async function kubeProxySparesOthers(context: CheckContext): Promise<void> {
  const { snapshot, notes, live } = context
  if (notes.read(NOTE, isTrue)) return
  const stage = await lvsStage(context)
  const { excludeCIDRs } = configOf(snapshot).ipvs
  const open = VIPS.find((address) => !excludeCIDRs.some((range) => contains(range, address)))
  expectField('configmap kube-proxy', 'excludeCIDRs', {
    holds: open === undefined,
    look: 'kubectl -n kube-system get configmap kube-proxy -o yaml | grep -A 3 excludeCIDRs',
    expected: `${open} in a range of ipvs.excludeCIDRs in the configuration of kube-proxy`,
    actual: excludeCIDRs.length === 0 ? 'no range at all' : excludeCIDRs.join(', '),
    hint: 'Put 192.0.2.0/24 there before kube-proxy runs in IPVS mode; what it has deleted does not come back.',
  })
  expectMode(context, 'ipvs', { hint: 'make ipvs' })
  const to = `${VIP}:${REAL_PORT.masq}`
  mustHold(stage, { key: `TCP ${to}`, scheduler: 'rr', forward: 'masq', weights: [1, 1] })
  if (live)
    mustBeAnswered(stage, [{ to }], await askFromOutside(live, [{ to }]), 'make check-4 STEP=virtual-server says why.')
  notes.keep(NOTE, true)
}
