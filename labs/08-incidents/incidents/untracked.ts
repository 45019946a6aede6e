import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

const rule = ({ shop }: Scene) => `PREROUTING -d ${shop} -p tcp -j CT --notrack`

export const untracked: Incident = {
  id: 'untracked',
  cause: 'a rule keeps packets for the Service out of connection tracking, so nothing translates them',
  mode: 'iptables',
  report: ({ node }) =>
    `Since somebody "relieved" ${node} under load, its Pods get no answer from the shop, whichever Pod of the shop is up. Processes of the node itself get one.`,
  hints: [
    'The rules of kube-proxy are complete. Does a packet of the customer meet them? Watch their counters.',
    'The nat table is only asked for packets that conntrack follows. Who can tell it not to?',
    'There is a table that comes before all others: `iptables -t raw -nvL`.',
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
  debrief: `Every translation stands on conntrack: no entry, no nat. The table raw comes before it and can exempt packets, which busy
servers do to save memory. On a node of Kubernetes that cuts Pods off from the Services it touches. A counter that stays at
zero says that a packet never came by, and the hook before is where to look next.`,
}
