import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { configOf } from '../../../grading/evaluate.ts'

const configured = (scheduler: string) => (text: string) => text.replace(/^( +scheduler:).*$/m, `$1 ${scheduler}`)

export const unknownScheduler: Incident = {
  id: 'unknown-scheduler',
  cause: "kube-proxy's configuration names an IPVS scheduler that there is not, so that it ends whenever it starts",
  mode: 'ipvs',
  report: ({ node }) =>
    `Since ${node} was rebooted, its Pods are lost: the shop was deployed anew this morning, and the customer gets no answer or only now and then. A colleague on another node is content. Yesterday somebody tuned the load balancing.`,
  hints: [
    'Compare the real servers that this node knows with the Pods of the shop.',
    'This node knows only those of before. Who should have told it, and what has become of that?',
    'Read `make kube-proxy-logs`, then `scheduler` in the ConfigMap kube-proxy. `make ipvs SCHEDULER=rr` sets it and restarts everything.',
  ],
  async break(actions) {
    await actions.editConfig(configured('fastest'))
    await actions.replaceKubeProxyPod(actions.scene.node, 'in trouble')
    await actions.patchDeployment('shop', {
      spec: { template: { metadata: { annotations: { release: new Date().toISOString() } } } },
    })
    await actions.shopReady()
  },
  symptom: (look) => look.customerOfShop(4),
  causeLeft({ snapshot }) {
    const { scheduler } = configOf(snapshot).ipvs
    return scheduler === 'fastest' ? 'the ConfigMap kube-proxy still asks for the scheduler "fastest"' : undefined
  },
  wrongFixes: [
    {
      what: 'the real servers are put right by hand',
      play: (actions: ClusterActions) => realServersByHand(actions),
    },
  ],
  fix: {
    commands: () => ['make ipvs SCHEDULER=rr'],
    play: (actions) => actions.bench.mode('ipvs', { scheduler: 'rr' }),
  },
  debrief: `Since 1.27 kube-proxy tries its scheduler with a virtual server on a test address, and ends when the kernel has none of that
name; before, it went on in iptables mode without a word to anybody but its log. A ConfigMap is read at the start only, so
the fault lay there until the next reboot. The other nodes would have followed, one reboot at a time.`,
}

/** Makes the virtual server of the shop on one node what the other nodes have. */
async function realServersByHand(actions: ClusterActions): Promise<void> {
  const { node, nodes, shop } = actions.scene
  const other = nodes.find((name) => name !== node) ?? node
  const lines = (await actions.onNode(other, `ipvsadm -Sn | grep -- '-t ${shop}:80 '`)).trim().split('\n')
  await actions.onNode(node, `ipvsadm -D -t ${shop}:80; ipvsadm -R <<'END'\n${lines.join('\n')}\nEND`)
}
