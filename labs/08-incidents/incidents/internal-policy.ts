import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const policy = (internalTrafficPolicy: 'Local' | 'Cluster') => ({ spec: { internalTrafficPolicy } })

const withoutDrop = `iptables-save -t filter | grep -v 'has no local endpoints' | iptables-restore`

export const internalPolicy: Incident = {
  id: 'internal-policy',
  cause: 'nodes without a Pod of the Service drop requests from inside the cluster, because of its traffic policy',
  mode: 'iptables',
  report: ({ nodes, shop }) =>
    `Our backup job on ${nodes[0]}, which runs in the node's own network, gets no answer from the shop at ${shop} since yesterday. Customers in Pods have no trouble.`,
  hints: [
    'Send the same request from every node, and from the customer. Which requests fail?',
    'The packet is dropped on the node where it starts. Look at the filter table of that node for rules about the address.',
    'Which field of the Service shop applies to traffic from inside the cluster?',
  ],
  break: (actions) => actions.patchService('shop', policy('Local')),
  async symptom(look) {
    const [node = ''] = look.scene.nodes
    const url = `http://${look.scene.shop}/`
    const answers = await look.fromNode(node, url, url)
    const bad = answers.find(({ status }) => status !== 200)
    const command = `make exec NODE=${node} CMD='curl -sS --max-time 2 ${url}'`
    return bad && { look: command, expected: 'an answer from the shop', actual: 'none' }
  },
  causeLeft: (look) =>
    look.service('shop')?.internalTrafficPolicy === 'Local'
      ? 'the Service shop has internalTrafficPolicy Local'
      : undefined,
  wrongFixes: [
    {
      what: 'the rule that drops is deleted by hand',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.nodes[0] ?? '', withoutDrop),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(policy('Cluster'))}'`],
    play: (actions) => actions.patchService('shop', policy('Cluster')),
  },
  debrief: `internalTrafficPolicy: Local sends traffic from inside the cluster only to Pods of the same node. It is meant for agents that
run on every node; with two Pods, every other node gets no answer. kube-proxy writes "has no local endpoints" DROP rules
there, and the client sees only a timeout.`,
}
