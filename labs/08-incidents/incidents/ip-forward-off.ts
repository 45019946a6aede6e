import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

const KEY = 'net.ipv4.ip_forward'
const place = ({ node }: Scene) => node
const set = (actions: ClusterActions, value: 0 | 1) =>
  actions.onNode(place(actions.scene), `sysctl -qw ${KEY}=${value}`)

export const ipForwardOff: Incident = {
  id: 'ip-forward-off',
  cause: 'the kernel of a node does not forward packets',
  mode: 'iptables',
  report: (scene) =>
    `Since ${place(scene)} was "hardened", no Pod on it can reach anything: neither the shop, nor another Pod. Programs in the node's own network work.`,
  hints: [
    "Does the failure depend on the Service? Send a request from the customer to a Pod's own address.",
    "The rules of kube-proxy are correct. A Pod's packet needs more than rules to leave its node: the kernel must forward it.",
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
  debrief: `A node is a router for its Pods. With net.ipv4.ip_forward off, DNAT still happens in PREROUTING; then the kernel finds that
the packet is for another machine and drops it silently. No rule counts that. kube-proxy turns the setting on only in IPVS
mode, and only when it starts; in iptables mode the network plugin or the administrator of the nodes must do it.`,
}
