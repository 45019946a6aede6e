// Repairs of the incidents of lab 8 that only hide the symptom: none may pass every step.

import { DiscoveryV1Api } from '@kubernetes/client-node'
import { type IncidentEnvironment, incidentFact } from '../../course/incident/shop.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { waitFor } from '../../host/wait.ts'

interface WrongFix {
  what: string
  play(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
  /** Reverts it, if the right fix does not. */
  undo?(bench: LabBench, environment: IncidentEnvironment): Promise<unknown>
}

/** A rule that is added to a chain by hand, on the customer's node or on the first one. */
const rule = (
  what: string,
  spec: string | ((environment: IncidentEnvironment) => string),
  { table = 'filter', first = false } = {},
): WrongFix => {
  const run = (action: '-I' | '-D') => (bench: LabBench, environment: IncidentEnvironment) =>
    bench.onNode(
      (first ? environment.nodes[0] : environment.node) ?? '',
      `iptables -t ${table} ${action} ${typeof spec === 'string' ? spec : spec(environment)}`,
    )
  return { what, play: run('-I'), undo: run('-D') }
}

const openFirewall = rule('the firewall is opened', 'FORWARD -j ACCEPT')

const publishUnreadyPods: WrongFix = {
  what: 'the Service publishes Pods that are not ready',
  play: (bench) => bench.patch('Service', 'shop', { spec: { publishNotReadyAddresses: true } }),
  undo: (bench) => bench.patch('Service', 'shop', { spec: { publishNotReadyAddresses: null } }),
}

const deleteDropRule: WrongFix = {
  what: 'the rule that drops is deleted by hand',
  play: (bench, { nodes }) =>
    bench.onNode(
      nodes[0] ?? '',
      `iptables-save -t filter | grep -v 'has no local endpoints' | iptables-restore`,
    ),
}

const SLICE = { namespace: 'default', name: 'shop-by-hand' }

/** An EndpointSlice with the Pods of the shop. */
async function sliceByHand({ client: { core, config } }: LabBench): Promise<void> {
  const { items } = await core.listNamespacedPod({
    namespace: 'default',
    labelSelector: 'app=shop',
  })
  const endpoints = items.map(({ status, spec }) => ({
    addresses: [status?.podIP ?? ''],
    conditions: { ready: true },
    ...(spec?.nodeName && { nodeName: spec.nodeName }),
  }))
  const metadata = { name: SLICE.name, labels: { 'kubernetes.io/service-name': 'shop' } }
  const ports = [{ name: '', port: 80, protocol: 'TCP' }]
  const body = { metadata, addressType: 'IPv4', endpoints, ports }
  await config
    .makeApiClient(DiscoveryV1Api)
    .createNamespacedEndpointSlice({ namespace: SLICE.namespace, body })
}

/** The port of the site is translated on every node. */
const redirect =
  (action: '-I' | '-D') =>
  (bench: LabBench, { shop }: IncidentEnvironment) =>
    bench.onEveryNode(
      `iptables -t nat ${action} PREROUTING -p tcp --dport 20080 -m addrtype --dst-type LOCAL -j DNAT --to-destination ${shop}:80; true`,
    )

async function scaleShop(bench: LabBench, replicas: number, name = 'shop'): Promise<void> {
  await bench.patch('Deployment', name, { spec: { replicas } })
  await bench.rolledOut('Deployment', name)
}

/** The node port on 127.0.0.1 is translated by rules of the learner, as iptables mode would. */
const loopbackPort =
  (action: '-I' | '-D') =>
  (bench: LabBench, { node, shop, nodePort }: IncidentEnvironment) =>
    bench.onNode(
      node,
      `sysctl -qw net.ipv4.conf.all.route_localnet=1
iptables -t nat ${action} OUTPUT -d 127.0.0.1 -p tcp --dport ${nodePort} -j DNAT --to-destination $(ipvsadm -Sn | sed -nE 's/^-a -t ${shop}:80 -r (\\S+) .*/\\1/p' | head -n 1)
iptables -t nat ${action} POSTROUTING -s 127.0.0.1 ! -o lo -j MASQUERADE`,
    )

/** By the id of the incident. */
export const wrongFixes: Record<string, readonly WrongFix[]> = {
  'address-janitor': [
    {
      what: 'the address is added by hand',
      async play(bench, { node, shop }) {
        await bench.onNode(node, `ip address replace ${shop}/32 dev kube-ipvs0`)
        const isGone = async () =>
          !(await bench.onNode(node, 'ip -o address show kube-ipvs0')).includes(`${shop}/`)
        await waitFor('the janitor to come by', 10_000, isGone)
      },
    },
  ],
  'selector-typo': [
    {
      what: 'an EndpointSlice is written by hand',
      play: sliceByHand,
      undo: ({ client }) =>
        client.config.makeApiClient(DiscoveryV1Api).deleteNamespacedEndpointSlice(SLICE),
    },
  ],
  'wrong-port-name': [publishUnreadyPods],
  'wrong-target-port': [
    {
      what: 'the port is changed in the chains of one node',
      play: (bench, { node }) =>
        bench.onNode(
          node,
          `iptables-save -t nat | sed -E 's/(--to-destination [0-9.]+):8080$/\\1:80/' | iptables-restore`,
        ),
    },
  ],
  'unready-backends': [publishUnreadyPods],
  'hollow-probe': [
    {
      what: 'the Pod of the next release is taken away',
      play: (bench) => scaleShop(bench, 0, 'shop-next'),
      undo: (bench) => scaleShop(bench, 1, 'shop-next'),
    },
  ],
  'evicted-agent': [
    {
      what: 'the rules of another node are copied to this one',
      async play(bench, { node, nodes }) {
        const other = nodes.find((name) => name !== node) ?? node
        const rules = await bench.onNode(other, 'iptables-save -t nat')
        await bench.onNode(node, `iptables-restore <<'END'\n${rules}END`)
      },
    },
  ],
  'foreign-proxy': [
    {
      what: "a DNAT rule is added by hand on the customer's node",
      play: (bench, { node, shop }) =>
        bench.onNode(
          node,
          `iptables -t nat -I PREROUTING -d ${shop} -p tcp --dport 80 -j DNAT --to-destination $(iptables-save -t nat | sed -nE 's/.*--to-destination ([0-9.]+:80)$/\\1/p' | head -n 1)`,
        ),
      undo: (bench, { node }) =>
        bench.onNode(
          node,
          "iptables-save -t nat | grep -vE '^-A PREROUTING .*-j DNAT' | iptables-restore",
        ),
    },
  ],
  'missing-module': [
    {
      what: 'kube-proxy is restarted',
      play: (bench, { node }) => bench.replaceKubeProxyPod(node, 'in trouble'),
    },
    {
      what: 'all nodes are switched back to iptables mode',
      play: (bench) => bench.mode('iptables'),
    },
  ],
  'lost-endpoint-rule': [
    {
      what: 'the jump to the empty chain is removed',
      play: (bench, environment) =>
        bench.onNode(
          environment.node,
          `iptables-save -t nat | grep -v -- '-j ${incidentFact(environment, 'chain')}' | sed -E '/^-A KUBE-SVC/s/-m statistic --mode random --probability [0-9.]+ //' | iptables-restore`,
        ),
    },
  ],
  'missing-masquerade': [
    rule(
      'a rule that masquerades is added by hand',
      'POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE',
      {
        table: 'nat',
        first: true,
      },
    ),
  ],
  'stale-reject': [
    {
      what: 'the rule is deleted on one node',
      play: (bench, { nodes }) =>
        bench.onNode(nodes[0] ?? '', 'iptables -F KUBE-EXTERNAL-SERVICES'),
    },
  ],
  untracked: [openFirewall],
  'ip-forward-off': [openFirewall],
  'port-out-of-range': [
    {
      what: 'a rule on every node sends the port to the shop',
      play: redirect('-I'),
      undo: redirect('-D'),
    },
  ],
  'stale-connection': [
    {
      what: 'the Service is changed, so that every kube-proxy syncs it',
      play: (bench) =>
        bench.patch('Service', 'prices', { metadata: { annotations: { touched: 'yes' } } }),
    },
  ],
  'internal-policy': [deleteDropRule],
  'local-policy': [deleteDropRule],
  'close-endpoints': [
    {
      what: 'the shop gets a third Pod',
      play: (bench) => scaleShop(bench, 3),
      undo: (bench) => scaleShop(bench, 2),
    },
  ],
  'session-affinity': [
    {
      what: 'the stored clients of the node are cleared, and the next request is stored again',
      play: (bench, { node }) =>
        bench.onNode(node, 'for list in /proc/net/xt_recent/KUBE-SEP-*; do echo / >"$list"; done'),
    },
  ],
  'source-ranges': [
    {
      what: 'all clients are allowed',
      play: (bench) =>
        bench.patch('Service', 'shop-lb', { spec: { loadBalancerSourceRanges: null } }),
    },
  ],
  'forgotten-canary': [
    {
      what: 'the kube-proxy of the node is restarted',
      play: (bench, { node }) => bench.replaceKubeProxyPod(node),
    },
    {
      what: 'a rule translates the port on 127.0.0.1',
      play: loopbackPort('-I'),
      undo: loopbackPort('-D'),
    },
  ],
  'leftover-virtual-server': [
    rule(
      'the address is blocked by a rule',
      (environment) => `INPUT -d ${incidentFact(environment, 'address')} -j DROP`,
    ),
  ],
  'own-firewall': [
    rule(
      'all packets for the address are accepted before it',
      ({ shop }) => `INPUT -d ${shop} -j ACCEPT`,
    ),
  ],
  'marked-virtual-server': [
    {
      what: 'the other virtual server gets a real server',
      play: (bench, { nodes, shop }) =>
        bench.onNode(
          nodes[0] ?? '',
          `ipvsadm -a -f 16384 -m -r $(ipvsadm -Sn | grep -m1 -- '-a -t ${shop}:80 ' | sed -E 's/.* -r (\\S+):80 .*/\\1/')`,
        ),
    },
  ],
  'weight-zero': [
    {
      what: 'only one of them gets its weight back',
      play: (bench, { node, shop }) =>
        bench.onNode(
          node,
          `real=$(ipvsadm -Sn | sed -nE 's/^-a -t ${shop}:80 -r (\\S+) .*/\\1/p' | head -n 1); ipvsadm -e -t ${shop}:80 -r $real -m -w 1`,
        ),
    },
  ],
  'unknown-scheduler': [
    {
      what: 'the real servers are corrected by hand: the virtual server is copied from another node',
      async play(bench, { node, nodes, shop }) {
        const other = nodes.find((name) => name !== node) ?? node
        const lines = (await bench.onNode(other, `ipvsadm -Sn | grep -- '-t ${shop}:80 '`)).trim()
        await bench.onNode(node, `ipvsadm -D -t ${shop}:80; ipvsadm -R <<'END'\n${lines}\nEND`)
      },
    },
  ],
}
