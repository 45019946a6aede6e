import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

const KEY = 'net.ipv4.ip_forward'
const place = ({ node }: Scene) => node
const set = (actions: ClusterActions, value: 0 | 1) =>
  actions.onNode(place(actions.scene), `sysctl -qw ${KEY}=${value}`)

export const ipForwardOff: Incident = {
  id: 'ip-forward-off',
  cause: "a node's kernel does not pass on packets that are not for itself",
  mode: 'iptables',
  report: (scene) =>
    `Since ${place(scene)} was "hardened", no Pod on it reaches anybody: neither the shop, nor another Pod. Programs in the node's own network are fine.`,
  hints: [
    'Do Services matter here at all? Let the customer call a Pod by its own address.',
    "kube-proxy's rules are as they should be. A packet of a Pod needs more than rules to leave its node: somebody must route it.",
    'Compare `sysctl net.ipv4` of this node with that of another one.',
  ],
  break: (actions) => set(actions, 0),
  symptom: (look) => look.customerOfShop(),
  async causeLeft({ live, scene }) {
    const { stdout } = await live.onNode(place(scene), `sysctl -n ${KEY}`)
    return stdout.trim() === '1' ? undefined : `${KEY} is off on ${place(scene)}`
  },
  wrongFixes: [
    {
      what: 'the firewall is opened',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, 'iptables -I FORWARD -j ACCEPT'),
      undo: (actions: ClusterActions) => actions.onNode(actions.scene.node, 'iptables -D FORWARD -j ACCEPT'),
    },
  ],
  fix: {
    commands: (scene) => [`make exec NODE=${place(scene)} CMD='sysctl -w ${KEY}=1'`],
    play: (actions) => set(actions, 1),
  },
  heal: (actions) => set(actions, 1),
  debrief: `A node is a router for its Pods. With net.ipv4.ip_forward off, DNAT still happens in PREROUTING, and then the kernel finds that
the packet is for somebody else and drops it without a word. No rule counts that. kube-proxy turns the switch on only in
IPVS mode, and only when it starts; in iptables mode it is up to the network plugin, and to whoever hardens nodes.`,
}
