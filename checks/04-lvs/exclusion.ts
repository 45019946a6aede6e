import { contains } from '../../dataplane/ip-address.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { REAL_PORT, VIP, VIPS } from './addresses.ts'
import { askFromOutside, mustBeAnswered } from './outside-client.ts'
import { lvsStage } from './stage.ts'
import { mustHold } from './virtual-server.ts'

const NOTE = 'spared-by-kube-proxy'
const isTrue = (value: unknown): value is true => value === true

/** kube-proxy ran in IPVS mode, was told which addresses are not its own, and left the learner's virtual server alone. */
export async function kubeProxySparesOthers(context: CheckContext): Promise<void> {
  const { snapshot, notes, live } = context
  if (notes.read(NOTE, isTrue)) return
  const stage = await lvsStage(context)
  const { excludeCIDRs } = configOf(snapshot).ipvs
  const open = VIPS.find((address) => !excludeCIDRs.some((range) => contains(range, address)))
  if (open !== undefined)
    fail({
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
