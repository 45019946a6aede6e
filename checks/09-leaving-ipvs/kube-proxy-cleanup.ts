// `kube-proxy --cleanup` on one node: that it has run there, and what it leaves.

import { counted } from '../../dataplane/compare/difference.ts'
import { isIpvsModeSet } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { type CheckContext, onceSeen, type Truth } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { holdsServiceAddresses } from './clean-up.ts'
import { changeFromIpvs } from './migration.ts'

/** The sets of IPVS mode on a node, of IPv6 or of IPv4. */
const setsOf = (node: NodeView, isIpv6: boolean) =>
  [...stateOf(node).ipsets.keys()].filter(
    (name) => isIpvsModeSet(name) && name.startsWith('KUBE-6-') === isIpv6,
  )

/**
 * The node on which kube-proxy --cleanup has run: it has no sets of IPv4, which the others still
 * have, and all of IPv6.
 */
function cleanedNode(context: CheckContext): NodeView {
  const { to } = changeFromIpvs(context)
  const { nodes } = context
  expectMode(context, to, {})
  const inspect = "make exec NODE=… CMD='ipset list -name'"
  expectThat(
    nodes.some((node) => setsOf(node, false).length > 0),
    {
      inspect,
      expected: 'nodes on which IPVS mode has left its sets again',
      actual: 'no node has any',
      hint: 'Changing the mode there and back leaves them on every node:',
      next: 'make ipvs && make iptables',
    },
  )
  const cleaned = expectFound(
    nodes.find((node) => setsOf(node, false).length === 0),
    {
      inspect,
      expected: 'one node without the sets of IPv4: kube-proxy --cleanup destroys them',
      actual: 'every node has them',
      next: 'kubectl -n kube-system exec $(kubectl -n kube-system get pods -l k8s-app=kube-proxy --field-selector spec.nodeName=$FIRST -o name) -- kube-proxy --cleanup',
    },
  )
  // Other programs leave other things: make flush-nat removes the sets of both families.
  const lost = nodes
    .flatMap((node) => setsOf(node, true))
    .find((name) => !setsOf(cleaned, true).includes(name))
  expectThat(lost === undefined, {
    node: cleaned.name,
    inspect: onNode(cleaned.name, 'ipset list -name'),
    expected: 'the sets of IPv6 that the other nodes have: kube-proxy --cleanup leaves them',
    actual: `${lost} is gone, so another program was here, too`,
    hint: 'Begin this step again:',
    next: 'make ipvs && make iptables',
  })
  return cleaned
}

/**
 * One node was cleaned by its kube-proxy's own program, and the others have what IPVS mode left.
 */
export const cleanedByKubeProxy = onceSeen('cleanup', async (context: CheckContext) => {
  const node = cleanedNode(context)
  const { virtualServers } = stateOf(node)
  expectThat(virtualServers.length === 0 && !holdsServiceAddresses(node), {
    node: node.name,
    inspect: onNode(node.name, 'ipvsadm -Ln; ip -brief link show kube-ipvs0'),
    expected: 'no virtual server and no kube-ipvs0, as kube-proxy --cleanup leaves the node',
    actual: `${counted(virtualServers.length, 'virtual server')}${holdsServiceAddresses(node) ? ', and kube-ipvs0' : ''}`,
  })
  return { node: node.name }
})

const REMOVED = ['virtual-servers', 'kube-ipvs0', 'sets-of-ipv4']
const LEFT = 'sets-of-ipv6'

/** Predict: what kube-proxy --cleanup leaves of IPVS mode. */
export function leftByCleanup(context: CheckContext): Truth {
  const node = cleanedNode(context)
  const leavesSets = setsOf(node, true).length > 0
  return {
    accepts: [leavesSets ? LEFT : 'nothing'],
    inspect: onNode(node.name, 'ipvsadm -Ln; ip -brief link show kube-ipvs0; ipset list -name'),
    wrong: [
      {
        when: (answer) => REMOVED.some((name) => answer.includes(name)),
        because:
          'It empties the whole table of IPVS, deletes kube-ipvs0, and destroys the sets of IPv4 after the rules that match against them. Sets are looked for by their names of IPv4.',
      },
      {
        when: (answer) => leavesSets && answer === 'nothing',
        because:
          'It looks for each set by its name of IPv4. Those of IPv6 begin with KUBE-6-, and IPVS mode makes them where a node has IPv6.',
      },
    ],
    because:
      'The names of the sets of IPv6 begin with KUBE-6-, and it looks for none of them. It has removed the virtual servers, also those that others made, and the rules of all modes.',
  }
}
