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
  cause: 'a label of the Service assigns it to a proxy other than kube-proxy',
  mode: 'iptables',
  report: () =>
    'No client in the cluster gets an answer from the shop, not even a refusal. It has its address, its Pods, its endpoints; a test with a mesh was cancelled last night.',
  hints: [
    'Look for the address of the Service in the rules of a node. Which rules match it?',
    'kube-proxy ignores the Service, on every node alike, and no log contains an error. So it is configured that way.',
    'Which labels of a Service does kube-proxy evaluate? `kubectl get service shop --show-labels`.',
  ],
  break: (actions) => label(actions, 'mesh'),
  symptom: (look) => look.customerOfShop(),
  causeLeft(look) {
    const value = look.service('shop')?.labels[LABEL]
    return value === undefined ? undefined : `the Service shop has the label ${LABEL}=${value}`
  },
  wrongFixes: [
    {
      what: "a DNAT rule is added by hand on the customer's node",
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
  debrief: `kube-proxy ignores a Service with the label service.kubernetes.io/service-proxy-name, whatever its value: no rule, no set, no
virtual server, and no error message. No machine has its ClusterIP, so packets for it leave by the default route and are lost.
That is why there was no refusal.`,
}
