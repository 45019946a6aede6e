import type { Incident } from '../../../course/incident/incident.ts'
import { addressOf } from '../../../course/incident/scene.ts'

const policy = (externalTrafficPolicy: 'Local' | 'Cluster') => ({ spec: { externalTrafficPolicy } })

const withoutDrop = "iptables-save -t filter | grep -v 'has no local endpoints' | iptables-restore"

export const localPolicy: Incident = {
  id: 'local-policy',
  cause: 'nodes without a Pod of the Service drop what comes from outside, by its traffic policy',
  mode: 'iptables',
  report: (scene) =>
    `Partners who call the shop at ${addressOf(scene, scene.nodes[0] ?? '')}:${scene.nodePort} wait for ever. Those who use another node's address are content, and even see their own address in our logs now.`,
  hints: [
    'What has the node that is silent not, which the others have?',
    'Nobody refuses: the packet is dropped. Look for DROP rules about the port in the filter table of that node.',
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
  debrief: `externalTrafficPolicy: Local keeps the client's address by never sending a packet on to another node. The price is that a node
without a Pod has to drop it. A load balancer asks healthCheckNodePort and leaves such nodes out; somebody who was given one
node's address does not. Either all nodes have a Pod, or the policy is Cluster.`,
}
