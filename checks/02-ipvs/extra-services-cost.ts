import type * as z from 'zod'
import { isServiceChain } from '../../dataplane/kube-proxy/chain-names.ts'
import { type CheckContext, onceNoted } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectOnNode, expectThat, NotApplicable } from '../../grading/failure.ts'
import { modeOf, objectsOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { BEFORE, countNote, EXTRA_SERVICES, WITH_EXTRA } from './notes.ts'

const MANIFEST = 'labs/02-ipvs/manifests/crowd.yaml'

type CountNote = z.infer<typeof countNote>

function countEverywhere(snapshot: Snapshot): CountNote {
  const nodes = snapshot.nodes.map((node) => {
    const { iptables, ipsets } = stateOf(node)
    const nat = iptables.get('nat')
    const rules = nat?.get('KUBE-SERVICES')?.rules.length ?? 0
    const chains = [...(nat?.keys() ?? [])].filter(isServiceChain).length
    return [
      node.name,
      { rules, chains, members: ipsets.get('KUBE-CLUSTER-IP')?.members.size ?? 0 },
    ] as const
  })
  const withClusterIP = objectsOf(snapshot).services.filter(
    ({ clusterIPs }) => clusterIPs.length > 0,
  )
  return {
    ports: withClusterIP.flatMap(({ ports }) => ports).length,
    nodes: Object.fromEntries(nodes),
  }
}

/** The number of Services that lab 2 adds to show how each mode scales. */
const extraServices = (snapshot: Snapshot): number =>
  objectsOf(snapshot).services.filter(
    ({ namespace, name }) => namespace === 'default' && /^crowd-\d+$/.test(name),
  ).length

/** Counts rules, chains and members of each mode without the extra Services. */
export function keepCounts({ snapshot, nodes, notes }: CheckContext): void {
  if (extraServices(snapshot) > 0) return
  const mode = (['iptables', 'ipvs'] as const).find((one) =>
    nodes.every((node) => modeOf(node) === one),
  )
  if (!mode) return
  // A kube-proxy reports its mode before its first sync has completed: until then the chain
  // contains rules of the other mode.
  expectNodes(nodes).chain('nat KUBE-SERVICES').equalPrediction(mode, 'the rules of this mode')
  if (mode === 'ipvs')
    expectNodes(nodes)
      .sets('KUBE-CLUSTER-IP')
      .equalPrediction(mode, 'every ClusterIP with its ports')
  notes.keep(BEFORE[mode], countEverywhere(snapshot))
}

/** iptables mode: rules grow by the number of Service ports, and no interface has a ClusterIP. */
export const extraServicesAddRules = onceNoted(
  WITH_EXTRA.iptables,
  countNote,
  ({ snapshot, nodes, notes, live }) => {
    const other = nodes.find((node) => modeOf(node) !== 'iptables')
    if (other && !live)
      throw new NotApplicable('kube-proxy had left iptables mode when this capture was taken')
    expectNodes(nodes).runMode('iptables', {
      expected: 'kube-proxy in iptables mode, where the count begins',
      hint: 'The count begins in iptables mode. Bring it back, and remove what the other one left:',
      next: 'make iptables && make flush-nat',
    })
    expectNodes(nodes)
      .chain('nat KUBE-SERVICES')
      .equalPrediction('iptables', 'one entry for every Service port, and the node-ports rule last')
    expectNodes(nodes).noInterfaceHasClusterIP()
    if (!live && extraServices(snapshot) === 0) return
    const { now, ports, counts } = countsAround(snapshot, notes.read(BEFORE.iptables, countNote))
    for (const { name, was, is } of counts) {
      const [rules, chains] = [is.rules - was.rules, is.chains - was.chains]
      expectOnNode(name, 'iptables -t nat -S KUBE-SERVICES', rules >= ports && chains >= ports, {
        expected: `at least ${ports} rules and ${ports} chains more than before, one each for every new Service port`,
        actual: `${rules} rules and ${chains} chains more`,
      })
    }
    return now
  },
)

/**
 * IPVS mode: the same extra Services add members to KUBE-CLUSTER-IP, one for each port, and no rule
 * or chain.
 */
export const extraServicesAddMembersOnly = onceNoted(
  WITH_EXTRA.ipvs,
  countNote,
  ({ snapshot, notes, live }) => {
    if (!live && extraServices(snapshot) === 0)
      throw new NotApplicable('there were no twenty Services when this capture was taken')
    const { now, ports, counts } = countsAround(snapshot, notes.read(BEFORE.ipvs, countNote))
    for (const { name, was, is } of counts) {
      const members = is.members - was.members
      // Chains of iptables mode may have been flushed in between, but not added.
      const isRight = is.rules === was.rules && is.chains <= was.chains && members === ports
      expectOnNode(name, 'iptables -t nat -S KUBE-SERVICES; ipset list KUBE-CLUSTER-IP', isRight, {
        expected: `${was.rules} rules as before, and ${ports} members more in KUBE-CLUSTER-IP`,
        actual: `${is.rules} rules, ${is.chains} chains of Services, ${members} members more`,
      })
    }
    return now
  },
)

/**
 * The counts now, the number of Service ports that were added since those before, and both counts
 * of each node.
 */
function countsAround(snapshot: Snapshot, before: CountNote | undefined) {
  const size = extraServices(snapshot)
  expectThat(size >= EXTRA_SERVICES, {
    inspect: 'kubectl get services -l lab=crowd',
    expected: `${EXTRA_SERVICES} Services crowd-01 … crowd-${EXTRA_SERVICES}`,
    actual: size === 0 ? 'none of them' : `${size} of them`,
    next: `kubectl apply -f ${MANIFEST}`,
  })
  expectThat(before, {
    inspect: 'kubectl get configmap lab-2 -o yaml',
    expected: 'a count from before the twenty Services were added, in the same mode',
    actual: 'the grader has not seen this mode without them',
    hint: 'Delete the twenty Services, have the rules counted, and add them again:',
    next: `kubectl delete -f ${MANIFEST} && make check-2; kubectl apply -f ${MANIFEST}`,
  })
  const now = countEverywhere(snapshot)
  const counts = Object.entries(now.nodes).flatMap(([name, is]) => {
    const was = before.nodes[name]
    return was ? [{ name, was, is }] : []
  })
  return { now, ports: now.ports - before.ports, counts }
}
