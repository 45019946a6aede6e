import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { configOf } from '../../../grading/evaluate.ts'

const configured = (scheduler: string) => (text: string) => text.replace(/^( +scheduler:).*$/m, `$1 ${scheduler}`)

export const unknownScheduler: Incident = {
  id: 'unknown-scheduler',
  cause:
    'the configuration of kube-proxy names an IPVS scheduler that does not exist, so kube-proxy exits whenever it starts',
  mode: 'ipvs',
  report: ({ node }) =>
    `Since ${node} was rebooted, its Pods have trouble: the shop was deployed again this morning, and the customer gets no answer or only sometimes. On another node all is well. Yesterday a colleague tuned the load balancing.`,
  hints: [
    'Compare the real servers on this node with the Pods of the shop.',
    'This node has only the previous Pods. Which program should have updated it, and in which state is that program?',
    'Read `make kube-proxy-logs`, then `scheduler` in the ConfigMap kube-proxy. `make ipvs SCHEDULER=rr` sets it and restarts kube-proxy.',
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
    return scheduler === 'fastest' ? 'the ConfigMap kube-proxy still has the scheduler "fastest"' : undefined
  },
  wrongFixes: [
    {
      what: 'the real servers are corrected by hand',
      play: (actions: ClusterActions) => realServersByHand(actions),
    },
  ],
  fix: {
    commands: () => ['make ipvs SCHEDULER=rr'],
    play: (actions) => actions.bench.mode('ipvs', { scheduler: 'rr' }),
  },
  debrief: `Since 1.27 kube-proxy tests its scheduler with a virtual server on a test address, and exits if the kernel has no scheduler of
that name; before, it fell back to iptables mode and only its log mentioned it. kube-proxy reads its ConfigMap only when it
starts, so the fault had no effect until the next reboot. The other nodes would have failed the same way, one reboot at a
time.`,
}

/** Makes the virtual server of the shop on one node what the other nodes have. */
async function realServersByHand(actions: ClusterActions): Promise<void> {
  const { node, nodes, shop } = actions.scene
  const other = nodes.find((name) => name !== node) ?? node
  const lines = (await actions.onNode(other, `ipvsadm -Sn | grep -- '-t ${shop}:80 '`)).trim().split('\n')
  await actions.onNode(node, `ipvsadm -D -t ${shop}:80; ipvsadm -R <<'END'\n${lines.join('\n')}\nEND`)
}
