import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const LABEL = 'service.kubernetes.io/service-proxy-name'
const label = (actions: ClusterActions, value: string | null) =>
  actions.patchService('shop', { metadata: { labels: { [LABEL]: value as string } } })
const byHand = (actions: ClusterActions) =>
  actions.onNode(
    actions.scene.node,
    `iptables -t nat -I PREROUTING -d ${actions.scene.shop} -p tcp --dport 80 -j DNAT --to-destination $(iptables-save -t nat | sed -nE 's/.*--to-destination ([0-9.]+:80)$/\\1/p' | head -n 1)`,
  )

export const foreignProxy: Incident = {
  id: 'foreign-proxy',
  cause: 'the Service is labelled as the business of another proxy than kube-proxy',
  mode: 'iptables',
  report: () =>
    'Nobody in the cluster gets an answer from the shop any more, not even a refusal. It has its address, its Pods, its endpoints; a test with a mesh was called off last night.',
  hints: [
    'Look for the address of the Service in the rules of a node. What do you find of it?',
    'kube-proxy leaves the Service out, on every node alike, and no log complains. So it was told to.',
    'Which labels of a Service does kube-proxy heed? `kubectl get service shop --show-labels`.',
  ],
  break: (actions) => label(actions, 'mesh'),
  symptom: (look) => look.customerOfShop(),
  causeLeft(look) {
    const value = look.service('shop')?.labels[LABEL]
    return value === undefined ? undefined : `the Service shop has the label ${LABEL}=${value}`
  },
  wrongFixes: [
    {
      what: 'a DNAT rule by hand on the node of the customer',
      play: (actions) => byHand(actions),
      undo: (actions) =>
        actions.onNode(
          actions.scene.node,
          "iptables-save -t nat | grep -vE '^-A PREROUTING .*-j DNAT' | iptables-restore",
        ),
    },
  ],
  fix: {
    commands: () => [`kubectl label service shop ${LABEL}-`],
    play: (actions) => label(actions, null),
  },
  debrief: `A Service with the label service.kubernetes.io/service-proxy-name, whatever its value, is no business of kube-proxy's: no rule, no
set, no virtual server, and no complaint. Its ClusterIP is then an address like any other that nobody has: packets for it
leave by the default route and are never heard of again. That is why there was no refusal.`,
}
