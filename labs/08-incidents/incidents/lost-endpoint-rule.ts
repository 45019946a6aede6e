import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { factOf } from '../../../course/incident/scene.ts'

/** The last rule of the Service's chain, which takes all that the others left. */
const lastEndpoint = `
service=$(iptables-save -t nat | sed -nE 's/^-A KUBE-SERVICES -d '"$1"'\\/32 .*-j (KUBE-SVC-[A-Z0-9]+)$/\\1/p' | head -n 1)
iptables-save -t nat | sed -nE "s/^-A $service .*-j (KUBE-SEP-[A-Z0-9]+)$/\\1/p" | tail -n 1`

export const lostEndpointRule: Incident = {
  id: 'lost-endpoint-rule',
  cause: 'on one node an endpoint has lost the rule that translates to it',
  mode: 'iptables',
  report: ({ node }) =>
    `About every second request of the customer to the shop is lost, the others are fast. It began when a colleague was "only looking" at ${node}; other nodes are not affected.`,
  hints: [
    'Some requests succeed, so the node knows the Service. What is chosen at random for each new connection?',
    'Follow KUBE-SVC-… of the shop on that node into each of its KUBE-SEP-… chains, and compare them.',
    'A chain KUBE-SEP-… ends in a DNAT rule. One of them does not. What makes kube-proxy write it again?',
  ],
  async break(actions) {
    const { node, shop, facts } = actions.scene
    const chain = (await actions.onNode(node, `set -- ${shop}${lastEndpoint}`)).trim()
    facts.chain = chain
    await actions.onNode(node, `iptables-save -t nat | grep -vE '^-A ${chain} .*-j DNAT' | iptables-restore`)
  },
  symptom: (look) => look.customerOfShop(10),
  causeLeft({ snapshot, scene }) {
    const chain = snapshot.node(scene.node).state.iptables.get('nat')?.get(factOf(scene, 'chain'))
    // Another Pod has another chain: then this one is gone altogether.
    const lost = chain && !chain.rules.some(({ spec }) => spec.includes('-j DNAT'))
    return lost ? `${chain.name} on ${scene.node} has no DNAT rule` : undefined
  },
  wrongFixes: [
    {
      what: 'the jump to the empty chain is removed',
      play: (actions: ClusterActions) =>
        actions.onNode(
          actions.scene.node,
          `iptables-save -t nat | grep -v -- '-j ${factOf(actions.scene, 'chain')}' | sed -E '/^-A KUBE-SVC/s/-m statistic --mode random --probability [0-9.]+ //' | iptables-restore`,
        ),
    },
  ],
  fix: {
    commands: ({ node }) => [
      `kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=${node}`,
    ],
    play: (actions) => actions.replaceKubeProxyPod(actions.scene.node),
  },
  debrief: `A packet that returns from an endpoint chain without translation continues with the next rule. After the last endpoint there
is none, so the packet leaves for an address that no machine has. Up to 1.26 kube-proxy rewrote everything at each change and
would have repaired this; since 1.27 it writes only what changed, and the chains of an unchanged Service stay as they are.`,
}
