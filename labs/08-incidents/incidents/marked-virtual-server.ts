import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { Scene } from '../../../course/incident/scene.ts'

/** kube-proxy's mark 0x4000, as ipvsadm prints it. */
const MARK = 16384
const place = ({ nodes }: Scene) => nodes[0] ?? ''

export const markedVirtualServer: Incident = {
  id: 'marked-virtual-server',
  cause: "a virtual server that is not kube-proxy's takes the packets that kube-proxy has marked",
  mode: 'ipvs',
  report: ({ nodes, nodePort }) =>
    `Partners no longer reach port ${nodePort} of ${nodes[0]}. The other nodes work, and on ${nodes[0]} itself all real servers of the shop are listed with weight 1. A colleague tried another load balancer there last week.`,
  hints: [
    'The virtual servers of kube-proxy are correct. Do their counters grow when a partner sends a request? `ipvsadm -Ln --stats`.',
    'Another entry takes the packet first. What do packets from outside have when they reach IPVS, and those of Pods do not?',
    'IPVS looks up the firewall mark first. Read `ipvsadm -Ln` to the end: one entry begins with FWM.',
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
      what: 'the other virtual server gets a real server',
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
  debrief: `IPVS finds virtual servers by address and port, or by firewall mark, and looks up the mark first. kube-proxy marks packets to
be masqueraded with 0x4000, which is 16384: a virtual server for that mark receives all of them, and drops them if it has no
real server. kube-proxy removes virtual servers whose addresses are not its own, but not those of marks.`,
}
