import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { complaint } from '../../../course/incident/incident-context.ts'
import { factOf } from '../../../course/incident/scene.ts'

const clean = 'ipvsadm -C; ip link del kube-ipvs0 2>/dev/null || true'

/** Makes a Service for a moment, to have an address that was one's and is nobody's. */
async function retiredAddress({ client: { core } }: ClusterActions): Promise<string> {
  const namespace = 'default'
  const body = { metadata: { name: 'old-shop' }, spec: { ports: [{ port: 80 }] } }
  const { spec } = await core.createNamespacedService({ namespace, body })
  await core.deleteNamespacedService({ namespace, name: 'old-shop' })
  return spec?.clusterIP ?? ''
}

export const leftoverVirtualServer: Incident = {
  id: 'leftover-virtual-server',
  cause: 'IPVS still serves the address of a Service that was deleted',
  mode: 'iptables',
  needs: ['ipvs'],
  report: ({ facts }) =>
    `The old shop at ${facts.address} was closed and its Service deleted. Yet customers still place orders there every day, and the goods are delivered.`,
  hints: [
    'Send a request to the address from the customer: it is answered. No Service has the address. Does a node have it?',
    'kube-proxy runs in iptables mode now. In which mode did it run when the old shop was open?',
    'Look at `ip address show kube-ipvs0` and `ipvsadm -Ln` on the node of the customer.',
  ],
  async break(actions) {
    const { scene } = actions
    const address = await retiredAddress(actions)
    scene.facts.address = address
    const backends = await actions.onNode(
      scene.node,
      "iptables-save -t nat | sed -nE 's/.*--to-destination ([0-9.]+:80)$/\\1/p' | sort -u",
    )
    const reals = backends
      .trim()
      .split('\n')
      .map((backend) => `-a -t ${address}:80 -r ${backend} -m`)
    const script = [
      `ip link add kube-ipvs0 type dummy; ip addr add ${address}/32 dev kube-ipvs0; sysctl -qw net.ipv4.vs.conntrack=1`,
      `printf '%s\\n' '-A -t ${address}:80 -s rr' ${reals.map((line) => `'${line}'`).join(' ')} | ipvsadm -R`,
    ]
    await actions.onNode(scene.node, `modprobe -aq ip_vs ip_vs_rr dummy\n${script.join('\n')}`)
  },
  async symptom(look) {
    const url = `http://${factOf(look.scene, 'address')}/`
    const answers = await look.fromCustomer(url)
    if (complaint(answers, '', '') !== undefined) return undefined
    return {
      look: `kubectl exec customer -- curl -sS --max-time 2 ${url}`,
      expected: 'no answer from the closed shop',
      actual: 'an answer',
    }
  },
  causeLeft({ snapshot, scene }) {
    const { links, virtualServers } = snapshot.node(scene.node).state
    const address = factOf(scene, 'address')
    if (virtualServers.some((server) => server.address === address))
      return `${scene.node} has a virtual server for ${address}`
    const bound = links.some((link) => link.addresses.some((one) => one.address === address))
    return bound ? `${address} is an address of ${scene.node}` : undefined
  },
  wrongFixes: [
    {
      what: 'the address is blocked by a rule',
      play: (actions: ClusterActions) =>
        actions.onNode(actions.scene.node, `iptables -I INPUT -d ${factOf(actions.scene, 'address')} -j DROP`),
      undo: (actions: ClusterActions) =>
        actions.onNode(actions.scene.node, `iptables -D INPUT -d ${factOf(actions.scene, 'address')} -j DROP`),
    },
  ],
  fix: { commands: () => ['make flush-nat'], play: (actions) => actions.bench.flush() },
  heal: (actions) => actions.onNode(actions.scene.node, clean),
  debrief: `kube-proxy removes nothing when it switches from IPVS to iptables mode. Its virtual servers, its sets and all addresses of
kube-ipvs0 stay and are not updated: a Service that is deleted later still works in the kernel, a Pod that is replaced stays a
real server. For Services that still exist this has no effect, because their packets are translated in PREROUTING before they
reach IPVS.`,
}
