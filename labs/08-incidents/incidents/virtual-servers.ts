import type { Incident } from '../../../course/incident/incident.ts'
import { complaint } from '../../../course/incident/incident-context.ts'
import { type IncidentEnvironment, incidentFact } from '../../../course/incident/shop.ts'
import type { LabBench } from '../../../course/lab-bench.ts'
import {
  deletePod,
  flush,
  mode,
  replaceKubeProxyOn,
  runOn,
  typing,
} from '../../../course/typed-commands.ts'
import { virtualServerKey } from '../../../dataplane/ipvsadm-save.ts'
import { configOf } from '../../../grading/evaluate.ts'
import { stateOf } from '../../../grading/snapshot.ts'

const clean = 'ipvsadm -C; ip link del kube-ipvs0 2>/dev/null || true'

/** Creates and deletes a Service, to get an unused ClusterIP. */
async function retiredAddress({ client: { core } }: LabBench): Promise<string> {
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
  stops: 'pod',
  sign: 'If IPVS still served a deleted Service, its address would be on kube-ipvs0 of a node that runs in iptables mode.',
  report: ({ facts }) =>
    `The old shop at ${facts.address} was closed and its Service deleted. Yet customers still place orders there every day, and the goods are delivered.`,
  hints: [
    'Send a request to the address from the customer: it is answered. No Service has the address. Does a node have it?',
    'kube-proxy runs in iptables mode now. In which mode did it run when the old shop was open?',
    'Look at `ip address show kube-ipvs0` and `ipvsadm -Ln` on the node of the customer.',
  ],
  async break(bench, environment) {
    const address = await retiredAddress(bench)
    environment.facts.address = address
    const backends = await bench.onNode(
      environment.node,
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
    await bench.onNode(environment.node, `modprobe -aq ip_vs ip_vs_rr dummy\n${script.join('\n')}`)
  },
  async symptom(context) {
    const url = `http://${incidentFact(context.environment, 'address')}/`
    const answers = await context.fromCustomer(url)
    if (complaint(answers, '', '') !== undefined) return undefined
    return {
      inspect: `kubectl exec customer -- curl -sS --max-time 2 ${url}`,
      expected: 'no answer from the closed shop',
      actual: 'an answer',
    }
  },
  causeLeft({ snapshot, environment }) {
    const { links, virtualServers } = stateOf(snapshot.node(environment.node))
    const address = incidentFact(environment, 'address')
    if (virtualServers.some((server) => server.address === address))
      return `${environment.node} has a virtual server for ${address}`
    const bound = links.some((link) => link.addresses.some((one) => one.address === address))
    return bound ? `${address} is an address of ${environment.node}` : undefined
  },
  fix: () => flush,
  revert: (bench, { node }) => bench.onNode(node, clean),
  debrief: `kube-proxy removes nothing when it switches from IPVS to iptables mode. Its virtual servers, its sets and all addresses of
kube-ipvs0 stay and are not updated: a Service that is deleted later still works in the kernel, a Pod that is replaced stays a
real server. For Services that still exist this has no effect, because their packets are translated in PREROUTING before they
reach IPVS.`,
}

/** kube-proxy's mark 0x4000, as ipvsadm prints it. */
const MARK = 16384
const firstNode = ({ nodes }: IncidentEnvironment) => nodes[0] ?? ''

export const markedVirtualServer: Incident = {
  id: 'marked-virtual-server',
  cause: "a virtual server that is not kube-proxy's takes the packets that kube-proxy has marked",
  mode: 'ipvs',
  stops: 'ipvs',
  sign: 'If another virtual server took marked packets, `ipvsadm -Ln` would list an entry FWM, and Pods of the node, whose packets are not marked, would be served.',
  report: ({ nodes, nodePort }) =>
    `Partners no longer reach port ${nodePort} of ${nodes[0]}. The other nodes work, and on ${nodes[0]} itself all real servers of the shop are listed with weight 1. A colleague tried another load balancer there last week.`,
  hints: [
    'The virtual servers of kube-proxy are correct. Do their counters grow when a partner sends a request? `ipvsadm -Ln --stats`.',
    'Another entry takes the packet first. What do packets from outside have when they reach IPVS, and those of Pods do not?',
    'IPVS looks up the firewall mark first. Read `ipvsadm -Ln` to the end: one entry begins with FWM.',
  ],
  break: (bench, environment) =>
    bench.onNode(firstNode(environment), `ipvsadm -A -f ${MARK} -s rr`),
  symptom: (context) => context.nodePortEverywhere(),
  causeLeft({ snapshot, environment }) {
    const { virtualServers } = stateOf(snapshot.node(firstNode(environment)))
    // Lab 4 has other marks of its own there.
    const found = virtualServers.some((server) => virtualServerKey(server) === `FWM ${MARK}`)
    return found
      ? `${firstNode(environment)} still has a virtual server of the mark ${MARK}`
      : undefined
  },
  fix: (environment) => runOn(firstNode(environment), `ipvsadm -D -f ${MARK}`),
  debrief: `IPVS finds virtual servers by address and port, or by firewall mark, and looks up the mark first. kube-proxy marks packets to
be masqueraded with 0x4000, which is 16384: a virtual server for that mark receives all of them, and refuses them if it has
no real server. kube-proxy removes virtual servers whose addresses are not its own, but not those of marks.`,
}

export const weightZero: Incident = {
  id: 'weight-zero',
  cause: 'real servers have weight 0 and get no new connections',
  mode: 'ipvs',
  stops: 'ipvs',
  sign: 'If real servers had weight 0, the column Weight of `ipvsadm -Ln` would show it on that node, and not on the others.',
  report: ({ node }) =>
    `After maintenance of ${node}, new connections of its Pods to the shop fail, although old ones worked for hours. Other nodes work.`,
  hints: [
    'The virtual server and its real servers exist. Look at every column of `ipvsadm -Ln`.',
    'Compare the weights on this node with those on another one.',
    'Weight 0 means "no new connections". kube-proxy corrects weights when it starts, and not in its regular syncs.',
  ],
  break: (bench, { node, shop }) =>
    bench.onNode(
      node,
      `for real in $(ipvsadm -Sn | sed -nE 's/^-a -t ${shop}:80 -r (\\S+) .*/\\1/p'); do ipvsadm -e -t ${shop}:80 -r $real -m -w 0; done`,
    ),
  symptom: (context) => context.customerOfShop(4),
  causeLeft({ snapshot, environment }) {
    const server = stateOf(snapshot.node(environment.node)).virtualServers.find(
      ({ address, port }) => address === environment.shop && port === 80,
    )
    const idle = server?.realServers.filter(({ weight }) => weight === 0) ?? []
    return idle.length > 0
      ? `${idle.length} real servers of ${environment.shop}:80 on ${environment.node} have weight 0`
      : undefined
  },
  fix: ({ node }) => replaceKubeProxyOn(node),
  debrief: `Weight 0 drains a real server: existing connections continue, new ones are not sent to it. kube-proxy itself uses it for
endpoints that are being removed. It does not check the weights of endpoints that stay, except in its first sync, so a manual
drain lasts until then unless it is undone.`,
}

const configured = (scheduler: string) => (text: string) =>
  text.replace(/^( +scheduler:).*$/m, `$1 ${scheduler}`)

export const unknownScheduler: Incident = {
  id: 'unknown-scheduler',
  cause:
    'the configuration of kube-proxy names an IPVS scheduler that does not exist, so kube-proxy exits whenever it starts',
  mode: 'ipvs',
  sign: 'With an unknown scheduler kube-proxy would exit whenever it starts, and its log would name the scheduler: `make kube-proxy-logs`.',
  report: ({ node }) =>
    `Since ${node} was rebooted, its Pods have trouble: the shop was deployed again this morning, and the customer gets no answer or only sometimes. On another node all is well. Yesterday a colleague tuned the load balancing.`,
  hints: [
    'Compare the real servers on this node with the Pods of the shop.',
    'This node has only the previous Pods. Which program should have updated it, and in which state is that program?',
    'Read `make kube-proxy-logs`, then `scheduler` in the ConfigMap kube-proxy. `make ipvs SCHEDULER=rr` sets it and restarts kube-proxy.',
  ],
  async break(bench, environment) {
    await bench.editKubeProxyConfig(configured('fastest'))
    await bench.replaceKubeProxyPod(environment.node, 'in trouble')
    await bench.restart('shop')
  },
  symptom: (context) => context.customerOfShop(4),
  causeLeft({ snapshot }) {
    const { scheduler } = configOf(snapshot).ipvs
    return scheduler === 'fastest'
      ? 'the ConfigMap kube-proxy still has the scheduler "fastest"'
      : undefined
  },
  fix: () => mode('ipvs', { scheduler: 'rr' }),
  debrief: `Since 1.27 kube-proxy tests its scheduler with a virtual server on a test address, and exits if the kernel has no scheduler of
that name; before, it fell back to iptables mode and only its log mentioned it. kube-proxy reads its ConfigMap only when it
starts, so the fault had no effect until the next reboot. The other nodes would have failed the same way, one reboot at a
time.`,
}

const JANITOR = 'net-janitor'

/** Repeatedly removes a ClusterIP from the dummy device. */
const sweeping = (address: string) =>
  `trap 'exit 0' TERM INT; while :; do ip address del ${address}/32 dev kube-ipvs0 2>/dev/null; sleep 0.3; done`

export const addressJanitor: Incident = {
  id: 'address-janitor',
  cause: 'a program on the node removes a ClusterIP from kube-ipvs0',
  mode: 'ipvs',
  stops: 'untranslated',
  sign: 'If the address were removed from the node, `ip address show kube-ipvs0` would not list the ClusterIP of the Service.',
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
    const spec = {
      nodeName: node,
      hostNetwork: true,
      terminationGracePeriodSeconds: 1,
      containers: [container],
    }
    await bench.create('Pod', JANITOR, { lab: 'incidents' }, { spec })
    await bench.podReady(JANITOR)
  },
  symptom: (context) => context.customerOfShop(2),
  causeLeft: (context) =>
    context.pod(JANITOR) ? 'the Pod net-janitor still removes the address' : undefined,
  fix: ({ node, shop }) =>
    typing(deletePod(JANITOR), runOn(node, `ip address replace ${shop}/32 dev kube-ipvs0`)),
  revert: (bench) => bench.delete('Pod', JANITOR),
  debrief: `kube-ipvs0 looks unused: a dummy interface that is down and has addresses. But because of these addresses the kernel delivers
packets for a ClusterIP to the node, where IPVS takes them at LOCAL_IN; without them, the packets are routed away. In IPVS mode
kube-proxy restores a lost address at its next sync, usually within 30 seconds (hourly in a few versions), so when two programs
fight over it, the fault comes and goes.`,
}
