import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

const rule = ({ shop }: Scene) => `PREROUTING -d ${shop} -p tcp -j CT --notrack`

export const untracked: Incident = {
  id: 'untracked',
  cause: 'a rule exempts packets for the Service from connection tracking, so they are not translated',
  mode: 'iptables',
  report: ({ node }) =>
    `Since a colleague reduced the load on ${node}, its Pods get no answer from the shop, whichever Pod of the shop is up. Processes of the node itself get one.`,
  hints: [
    'The rules of kube-proxy are complete. Does a packet of the customer match them? Watch their counters.',
    'The nat table only applies to packets that conntrack tracks. What can exempt a packet from tracking?',
    'One table comes before all others: `iptables -t raw -nvL`.',
  ],
  break: (actions) => actions.onNode(actions.scene.node, `iptables -t raw -I ${rule(actions.scene)}`),
  symptom: (look) => look.customerOfShop(2),
  causeLeft({ snapshot, scene }) {
    const rules = snapshot.node(scene.node).state.iptables.get('raw')?.get('PREROUTING')?.rules ?? []
    const found = rules.find(({ spec }) => /--notrack|NOTRACK/.test(spec) && spec.includes(scene.shop))
    return found && `raw PREROUTING of ${scene.node} still has: ${found.spec}`
  },
  wrongFixes: [
    {
      what: 'the firewall is opened',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, 'iptables -I FORWARD -j ACCEPT'),
      undo: (actions: ClusterActions) => actions.onNode(actions.scene.node, 'iptables -D FORWARD -j ACCEPT'),
    },
  ],
  fix: {
    commands: (scene) => [`make exec NODE=${scene.node} CMD='iptables -t raw -D ${rule(scene)}'`],
    play: (actions) => actions.onNode(actions.scene.node, `iptables -t raw -D ${rule(actions.scene)}`),
  },
  debrief: `All address translation depends on conntrack: without an entry there is no NAT. The table raw comes before it and can exempt
packets, which busy servers use to save memory. On a Kubernetes node this cuts Pods off from the affected Services. A counter
that stays at zero means that the packet did not reach the rule, so look at the hook before it.`,
}
