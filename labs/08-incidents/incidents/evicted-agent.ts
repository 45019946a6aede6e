import { kubeProxyPods } from '../../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const KEY = 'kubernetes.io/os'
const NO_LINUX = 'linux-rt'

/** Replaces every Pod of the shop, one set after the other. */
async function redeploy(actions: ClusterActions): Promise<void> {
  await actions.patchDeployment('shop', {
    spec: { template: { metadata: { annotations: { release: new Date().toISOString() } } } },
  })
  await actions.shopReady()
}

export const evictedAgent: Incident = {
  id: 'evicted-agent',
  cause: 'a node has no kube-proxy, so its rules are not updated',
  mode: 'iptables',
  report: () =>
    'The shop was deployed again, and since then the customer gets no answer. A colleague whose Pods run on another node has no problem.',
  hints: [
    "To which addresses do the rules of the customer's node send a request? Do these Pods exist?",
    'The rules are out of date. Which program should have updated them, and does it run on this node?',
    'The DaemonSet kube-proxy wants fewer Pods than there are nodes. Compare its nodeSelector with the labels of the nodes.',
  ],
  async break(actions) {
    await actions.labelNode(actions.scene.node, { [KEY]: NO_LINUX })
    await actions.kubeProxyPodGone(actions.scene.node)
    await redeploy(actions)
  },
  symptom: (look) => look.customerOfShop(4),
  causeLeft({ snapshot, scene }) {
    const runs = kubeProxyPods(snapshot.items).some(({ spec }) => spec?.nodeName === scene.node)
    return runs ? undefined : `no kube-proxy runs on ${scene.node}`
  },
  wrongFixes: [
    {
      what: 'the rules of another node are copied to this one',
      async play(actions) {
        const { node, nodes } = actions.scene
        const other = nodes.find((name) => name !== node) ?? node
        const rules = await actions.onNode(other, 'iptables-save -t nat')
        await actions.onNode(node, `iptables-restore <<'END'\n${rules}END`)
      },
    },
  ],
  fix: {
    commands: ({ node }) => [`kubectl label node ${node} ${KEY}=linux --overwrite`],
    play: (actions) => actions.labelNode(actions.scene.node, { [KEY]: 'linux' }),
  },
  heal: (actions) => actions.labelNode(actions.scene.node, { [KEY]: 'linux' }),
  debrief: `When kube-proxy stops, nothing fails at first: its rules are in the kernel and keep working. But they become out of date. Each
Pod that is replaced is an endpoint that this node does not know, and one that it still sends to. Compare the number of Pods
of the DaemonSet with the number of nodes before you look at any rule.`,
}
