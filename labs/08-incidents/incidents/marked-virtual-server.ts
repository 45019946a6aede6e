import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

/** kube-proxy's mark 0x4000, as ipvsadm prints it. */
const MARK = 16384
const place = ({ nodes }: Scene) => nodes[0] ?? ''

export const markedVirtualServer: Incident = {
  id: 'marked-virtual-server',
  cause: "a virtual server that is not kube-proxy's takes the packets that kube-proxy marked",
  mode: 'ipvs',
  report: ({ nodes, nodePort }) =>
    `Partners no longer get through to port ${nodePort} of ${nodes[0]}. The other nodes serve them, and on ${nodes[0]} itself all real servers of the shop are listed, weight 1. Somebody tried another load balancer there last week.`,
  hints: [
    "kube-proxy's virtual servers are right. Do their counters move when a partner calls? `ipvsadm -Ln --stats`.",
    'Something takes the packet before. What do packets from outside carry when they reach IPVS, that those of Pods do not?',
    'IPVS looks for the firewall mark first. Read `ipvsadm -Ln` to the end: one entry begins with FWM.',
  ],
  break: (actions) => actions.onNode(place(actions.scene), `ipvsadm -A -f ${MARK} -s rr`),
  symptom: (look) => look.nodePortEverywhere(),
  causeLeft({ snapshot, scene }) {
    const { virtualServers } = snapshot.node(place(scene)).state
    const found = virtualServers.some(({ protocol }) => protocol === 'FWM')
    return found ? `${place(scene)} still has a virtual server of the mark ${MARK}` : undefined
  },
  wrongFixes: [
    {
      what: 'the foreign virtual server is given a real server',
      play: (actions: ClusterActions) =>
        actions.onNode(
          place(actions.scene),
          `ipvsadm -a -f ${MARK} -m -r $(ipvsadm -Sn | grep -m1 -- '-a -t ${actions.scene.shop}:80 ' | sed -E 's/.* -r (\\S+):80 .*/\\1/')`,
        ),
    },
  ],
  fix: {
    commands: (scene) => [`make exec NODE=${place(scene)} CMD='ipvsadm -D -f ${MARK}'`],
    play: (actions) => actions.onNode(place(actions.scene), `ipvsadm -D -f ${MARK}`),
  },
  debrief: `IPVS knows virtual servers by address and port, and by firewall mark, and asks for the mark first. kube-proxy marks what is to
be masqueraded with 0x4000, which is 16384: whoever makes a virtual server of that mark gets all of it, and drops it when he
has no real server. kube-proxy removes virtual servers of addresses that are not its own, but leaves those of marks alone.`,
}
