import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { addressOf, type Scene } from '../../../course/incident/scene.ts'

const jump = 'POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'
const place = ({ nodes }: Scene) => nodes[0] ?? ''
const byHand = 'POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE'

export const missingMasquerade: Incident = {
  id: 'missing-masquerade',
  cause: 'a node does not replace the source of the packets that it forwards',
  mode: 'iptables',
  report: (scene) =>
    `A partner calls the shop at http://${addressOf(scene, place(scene))}:${scene.nodePort}/ and gets no answer since yesterday. The other nodes' addresses work.`,
  hints: [
    'The request reaches a Pod. Find out where the reply goes.',
    'A reply must pass the node that translated the request. What makes it do so? Compare the chain POSTROUTING of a node that works with this one.',
    'The nat chain POSTROUTING of that node has lost its jump to KUBE-POSTROUTING. kube-proxy restores jumps when it starts.',
  ],
  break: (actions) => actions.onNode(place(actions.scene), `iptables -t nat -D ${jump}`),
  symptom: (look) => look.nodePortEverywhere(),
  causeLeft({ snapshot, scene }) {
    const rules = snapshot.node(place(scene)).state.iptables.get('nat')?.get('POSTROUTING')?.rules ?? []
    const stands = rules.some(({ spec }) => spec.endsWith('-j KUBE-POSTROUTING'))
    return stands ? undefined : `POSTROUTING of ${place(scene)} does not lead to KUBE-POSTROUTING`
  },
  wrongFixes: [
    {
      what: 'a rule that masquerades is added by hand',
      play: (actions: ClusterActions) => actions.onNode(place(actions.scene), `iptables -t nat -A ${byHand}`),
      undo: (actions: ClusterActions) => actions.onNode(place(actions.scene), `iptables -t nat -D ${byHand}`),
    },
  ],
  fix: {
    commands: (scene) => [
      `kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=${place(scene)}`,
    ],
    play: (actions) => actions.replaceKubeProxyPod(place(actions.scene)),
  },
  debrief: `If a client reaches a Pod of another node through this one, the reply must come back through this one, or it has the wrong
source address. So kube-proxy marks such packets with 0x4000 and KUBE-POSTROUTING replaces their source. Without the jump the
mark has no effect. Since 1.27 a running kube-proxy rewrites only what changed: a lost jump stays lost until kube-proxy
restarts (or, in newer versions, for up to an hour).`,
}
