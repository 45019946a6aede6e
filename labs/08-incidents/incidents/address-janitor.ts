import type { Incident } from '../../../course/incident/incident.ts'
import { waitFor } from '../../../host/wait.ts'

const JANITOR = 'net-janitor'

/** Repeatedly removes a ClusterIP from the dummy device. */
const sweeping = (address: string) =>
  `trap 'exit 0' TERM INT; while :; do ip address del ${address}/32 dev kube-ipvs0 2>/dev/null; sleep 0.3; done`

export const addressJanitor: Incident = {
  id: 'address-janitor',
  cause: 'a program on the node removes a ClusterIP from kube-ipvs0',
  mode: 'ipvs',
  report: ({ node }) =>
    `The Pods of ${node} get no answer from the shop. Restarting kube-proxy there helps for less than a second. It began when the platform team started to clean up unused network interfaces, node by node.`,
  hints: [
    'IPVS only sees packets that are delivered to the node itself. What makes the kernel deliver a packet for a ClusterIP locally?',
    'Compare `ip address show kube-ipvs0` with the ClusterIPs of all Services, add the missing one, and watch it with `ip monitor address`.',
    'Which program removes it? Look for a Pod that runs on that node and on no other: `kubectl get pods -A -o wide`.',
  ],
  async break(bench, { node, shop }) {
    const container = {
      name: 'janitor',
      image: 'nicolaka/netshoot',
      imagePullPolicy: 'IfNotPresent',
      command: ['sh', '-c', sweeping(shop)],
      securityContext: { privileged: true },
    }
    const spec = { nodeName: node, hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [container] }
    await bench.create('Pod', JANITOR, { lab: 'incidents' }, { spec })
    await bench.podReady(JANITOR)
  },
  symptom: (context) => context.customerOfShop(2),
  causeLeft: (context) => (context.pod(JANITOR) ? 'the Pod net-janitor still removes the address' : undefined),
  wrongFixes: [
    {
      what: 'the address is added by hand',
      async play(bench, { node, shop }) {
        await bench.onNode(node, `ip address replace ${shop}/32 dev kube-ipvs0`)
        await waitFor(
          'the janitor to come by',
          10_000,
          async () => !(await bench.onNode(node, 'ip -o address show kube-ipvs0')).includes(`${shop}/`),
        )
      },
    },
  ],
  fix: {
    commands: ({ node, shop }) => [
      'kubectl delete pod net-janitor',
      `make exec NODE=${node} CMD='ip address replace ${shop}/32 dev kube-ipvs0'`,
    ],
    async play(bench, { node, shop }) {
      await bench.delete('Pod', JANITOR)
      await bench.onNode(node, `ip address replace ${shop}/32 dev kube-ipvs0`)
    },
  },
  revert: (bench) => bench.delete('Pod', JANITOR),
  debrief: `kube-ipvs0 looks unused: a dummy interface that is down and has addresses. But because of these addresses the kernel delivers
packets for a ClusterIP to the node, where IPVS takes them at LOCAL_IN; without them, the packets are routed away. kube-proxy
restores a lost address within 30 seconds, so when two programs fight over it, the fault comes and goes.`,
}
