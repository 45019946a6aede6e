import type { Incident } from '../../../course/incident/incident.ts'
import { addressOf } from '../../../course/incident/scene.ts'

const policy = (externalTrafficPolicy: 'Local' | 'Cluster') => ({ spec: { externalTrafficPolicy } })

const withoutDrop = "iptables-save -t filter | grep -v 'has no local endpoints' | iptables-restore"

export const localPolicy: Incident = {
  id: 'local-policy',
  cause: 'nodes without a Pod of the Service drop requests from outside, because of its traffic policy',
  mode: 'iptables',
  report: (scene) =>
    `Partners who call the shop at ${addressOf(scene, scene.nodes[0] ?? '')}:${scene.nodePort} get no answer until they give up. With the other nodes' addresses it works, and we even see the partners' own addresses in our logs now.`,
  hints: [
    'What do the other nodes have that the node without an answer lacks?',
    'The request is not refused: the packet is dropped. Look for DROP rules for the port in the filter table of that node.',
    'Which field of the Service shop-np tells kube-proxy to keep traffic on the node where it arrived?',
  ],
  break: (actions) => actions.patchService('shop-np', policy('Local')),
  symptom: (look) => look.nodePortEverywhere(),
  causeLeft: (look) =>
    look.service('shop-np')?.externalTrafficPolicy === 'Local'
      ? 'the Service shop-np has externalTrafficPolicy Local, and not every node has a Pod of the shop'
      : undefined,
  wrongFixes: [
    {
      what: 'the rule that drops is deleted by hand',
      play: (actions) => actions.onNode(actions.scene.nodes[0] ?? '', withoutDrop),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop-np --type merge -p '${JSON.stringify(policy('Cluster'))}'`],
    play: (actions) => actions.patchService('shop-np', policy('Cluster')),
  },
  debrief: `externalTrafficPolicy: Local keeps the client's address by never forwarding a packet to another node. In return, a node
without a Pod must drop it. A load balancer queries healthCheckNodePort and avoids such nodes; a client that uses the address
of one node does not. Either every node has a Pod, or the policy must be Cluster.`,
}
