import type { Incident } from '../../../course/incident/incident.ts'
import { addressOf, type IncidentEnvironment, incidentFact } from '../../../course/incident/shop.ts'
import type { LabBench } from '../../../course/lab-bench.ts'
import { flush, replaceKubeProxyOn, runOn } from '../../../course/typed-commands.ts'
import { stateOf } from '../../../grading/snapshot.ts'

/** The last rule of the Service's chain, which matches all remaining packets. */
const lastEndpoint = `
service=$(iptables-save -t nat | sed -nE 's/^-A KUBE-SERVICES -d '"$1"'\\/32 .*-j (KUBE-SVC-[A-Z0-9]+)$/\\1/p' | head -n 1)
iptables-save -t nat | sed -nE "s/^-A $service .*-j (KUBE-SEP-[A-Z0-9]+)$/\\1/p" | tail -n 1`

export const lostEndpointRule: Incident = {
  id: 'lost-endpoint-rule',
  cause: 'on one node an endpoint has lost the rule that translates to it',
  mode: 'iptables',
  needs: ['partial-syncs'],
  stops: 'untranslated',
  sign: 'If an endpoint had lost its rule, about every second request would fail, and one chain KUBE-SEP-… of the node would have no DNAT rule.',
  report: ({ node }) =>
    `About every second request of the customer to the shop is lost, the others are fast. It began when a colleague was "only looking" at ${node}; other nodes are not affected.`,
  hints: [
    'Some requests succeed, so the node knows the Service. What is chosen at random for each new connection?',
    'Follow KUBE-SVC-… of the shop on that node into each of its KUBE-SEP-… chains, and compare them.',
    'A chain KUBE-SEP-… ends in a DNAT rule. One of them does not. What makes kube-proxy write it again?',
  ],
  async break(bench, { node, shop, facts }) {
    const chain = (await bench.onNode(node, `set -- ${shop}${lastEndpoint}`)).trim()
    facts.chain = chain
    await bench.onNode(
      node,
      `iptables-save -t nat | grep -vE '^-A ${chain} .*-j DNAT' | iptables-restore`,
    )
  },
  symptom: (context) => context.customerOfShop(10),
  causeLeft({ snapshot, environment }) {
    const chain = stateOf(snapshot.node(environment.node))
      .iptables.get('nat')
      ?.get(incidentFact(environment, 'chain'))
    // Another Pod has another chain: then this chain no longer exists.
    const lost = chain && !chain.rules.some(({ spec }) => spec.includes('-j DNAT'))
    return lost ? `${chain.name} on ${environment.node} has no DNAT rule` : undefined
  },
  fix: ({ node }) => replaceKubeProxyOn(node),
  debrief: `A packet that returns from an endpoint chain without translation continues with the next rule. After the last endpoint there
is none, so the packet leaves for an address that no machine has. Up to 1.26 kube-proxy rewrote everything at each change and
would have repaired this; since 1.27 it writes only what changed, and the chains of an unchanged Service stay as they are.`,
}

const jump = 'POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'
const firstNode = ({ nodes }: IncidentEnvironment) => nodes[0] ?? ''

export const missingMasquerade: Incident = {
  id: 'missing-masquerade',
  cause: 'a node does not replace the source of the packets that it forwards',
  mode: 'iptables',
  needs: ['partial-syncs'],
  stops: 'reply',
  sign: "Without masquerading, requests to one node's address would reach Pods of other nodes and get no answer, and POSTROUTING would not jump to KUBE-POSTROUTING.",
  report: (environment) =>
    `A partner calls the shop at http://${addressOf(environment, firstNode(environment))}:${environment.nodePort}/ and gets no answer since yesterday. The other nodes' addresses work.`,
  hints: [
    'The request reaches a Pod. Find out where the reply goes.',
    'A reply must pass the node that translated the request. What makes it do so? Compare the chain POSTROUTING of a node that works with this one.',
    'The nat chain POSTROUTING of that node has lost its jump to KUBE-POSTROUTING. kube-proxy restores jumps when it starts.',
  ],
  break: (bench, environment) => bench.onNode(firstNode(environment), `iptables -t nat -D ${jump}`),
  symptom: (context) => context.nodePortEverywhere(),
  causeLeft({ snapshot, environment }) {
    const rules =
      stateOf(snapshot.node(firstNode(environment)))
        .iptables.get('nat')
        ?.get('POSTROUTING')?.rules ?? []
    const isThere = rules.some(({ spec }) => spec.endsWith('-j KUBE-POSTROUTING'))
    return isThere
      ? undefined
      : `POSTROUTING of ${firstNode(environment)} does not lead to KUBE-POSTROUTING`
  },
  fix: (environment) => replaceKubeProxyOn(firstNode(environment)),
  debrief: `If a client reaches a Pod of another node through this one, the reply must come back through this one, or it has the wrong
source address. So kube-proxy marks such packets with 0x4000 and KUBE-POSTROUTING replaces their source. Without the jump the
mark has no effect. Since 1.27 a running kube-proxy rewrites only what changed: a lost jump stays lost until kube-proxy
restarts (or, in newer versions, for up to an hour).`,
}

const PLACE = ['KUBE-EXTERNAL-SERVICES', 'KUBE-SERVICES']

/** Makes the partners' Service select no Pod, or the shop again. */
const leadTo = (bench: LabBench, app: string) =>
  bench.patch('Service', 'shop-np', { spec: { selector: { app } } })

/** Waits until every node rejects partners with a rule of iptables mode. */
async function refusedEverywhere(bench: LabBench): Promise<void> {
  const look =
    'for _ in $(seq 50); do iptables -S KUBE-EXTERNAL-SERVICES | grep -q REJECT && exit; sleep 0.1; done; exit 1'
  await bench.onEveryNode(look)
}

export const staleReject: Incident = {
  id: 'stale-reject',
  cause: 'rules of the previous mode still reject packets',
  mode: 'ipvs',
  from: 'iptables',
  stops: 'rejected',
  sign: 'If rules of the previous mode rejected packets, `iptables -nvL` would show a REJECT rule whose counter grows with each request.',
  report: ({ nodePort }) =>
    `We closed the shop to partners for the night, had kube-proxy moved to IPVS meanwhile, and opened again. Customers in Pods are served. Partners are refused at once on port ${nodePort} of every node.`,
  hints: [
    "The virtual servers have their real servers. Does a partner's packet ever reach IPVS?",
    'IPVS takes packets after the chain INPUT of the filter table. Read it, and the chains that it jumps to, with counters.',
    'Chains that kube-proxy wrote in iptables mode are still there, and one of them still has a rule of that night. Which make target removes what a mode left?',
  ],
  async break(bench) {
    await leadTo(bench, 'nobody')
    await refusedEverywhere(bench)
    await bench.mode('ipvs')
    await leadTo(bench, 'shop')
  },
  symptom: (context) => context.nodePortEverywhere(),
  causeLeft({ nodes }) {
    for (const node of nodes) {
      const { name } = node
      const chains = stateOf(node).iptables.get('filter')
      const chain = PLACE.find((one) =>
        chains?.get(one)?.rules.some(({ spec }) => spec.includes('-j REJECT')),
      )
      if (chain)
        return `${chain} on ${name} still rejects packets for a Service that has endpoints again`
    }
    return undefined
  },
  fix: () => flush,
  debrief: `In iptables mode a Service without endpoints gets REJECT rules in the filter table. After the switch nothing updates them:
kube-proxy in IPVS mode writes other chains, and the old jumps still lead to the REJECT of a night without endpoints. Pods are
served because their packets pass neither rule on the way to IPVS. After each switch of the mode, flush the old rules.`,
}

const rule = ({ shop }: IncidentEnvironment) => `PREROUTING -d ${shop} -p tcp -j CT --notrack`

export const untracked: Incident = {
  id: 'untracked',
  cause:
    'a rule exempts packets for the Service from connection tracking, so they are not translated',
  mode: 'iptables',
  stops: 'untranslated',
  sign: 'If packets were exempt from connection tracking, the table raw would contain a NOTRACK rule: `iptables -t raw -nvL`.',
  report: ({ node }) =>
    `Since a colleague reduced the load on ${node}, its Pods get no answer from the shop, whichever Pod of the shop is up. Processes of the node itself get one.`,
  hints: [
    'The rules of kube-proxy are complete. Does a packet of the customer match them? Watch their counters.',
    'The nat table only applies to packets that conntrack tracks. What can exempt a packet from tracking?',
    'One table comes before all others: `iptables -t raw -nvL`.',
  ],
  break: (bench, environment) =>
    bench.onNode(environment.node, `iptables -t raw -I ${rule(environment)}`),
  symptom: (context) => context.customerOfShop(2),
  causeLeft({ snapshot, environment }) {
    const rules =
      stateOf(snapshot.node(environment.node)).iptables.get('raw')?.get('PREROUTING')?.rules ?? []
    const found = rules.find(
      ({ spec }) => /--notrack|NOTRACK/.test(spec) && spec.includes(environment.shop),
    )
    return found && `raw PREROUTING of ${environment.node} still has: ${found.spec}`
  },
  fix: (environment) => runOn(environment.node, `iptables -t raw -D ${rule(environment)}`),
  debrief: `All address translation depends on conntrack: without an entry there is no NAT. The table raw comes before it and can exempt
packets, which busy servers use to save memory. On a Kubernetes node this cuts Pods off from the affected Services. A counter
that stays at zero means that the packet did not reach the rule, so look at the hook before it.`,
}

const KEY = 'net.ipv4.ip_forward'
const setForwarding = (bench: LabBench, node: string, value: 0 | 1) =>
  bench.onNode(node, `sysctl -qw ${KEY}=${value}`)

export const ipForwardOff: Incident = {
  id: 'ip-forward-off',
  cause: 'the kernel of a node does not forward packets',
  mode: 'iptables',
  sign: 'If the node did not forward, its Pods could not even reach a Pod of another node by its own address.',
  report: (environment) =>
    `Since ${environment.node} was "hardened", no Pod on it can reach anything: neither the shop, nor another Pod. Programs in the node's own network work.`,
  hints: [
    "Does the failure depend on the Service? Send a request from the customer to a Pod's own address.",
    "The rules of kube-proxy are correct. A Pod's packet needs more than rules to leave its node: the kernel must forward it.",
    'Compare `sysctl net.ipv4` of this node with that of another one.',
  ],
  break: (bench, { node }) => setForwarding(bench, node, 0),
  symptom: (context) => context.customerOfShop(),
  async causeLeft({ live, environment }) {
    const { stdout } = await live.onNode(environment.node, `sysctl -n ${KEY}`)
    return stdout.trim() === '1' ? undefined : `${KEY} is off on ${environment.node}`
  },
  fix: ({ node }) => runOn(node, `sysctl -w ${KEY}=1`),
  revert: (bench, { node }) => setForwarding(bench, node, 1),
  debrief: `A node is a router for its Pods. With net.ipv4.ip_forward off, DNAT still happens in PREROUTING; then the kernel finds that
the packet is for another machine and drops it silently. No rule counts that. kube-proxy turns the setting on only in IPVS
mode, and only when it starts; in iptables mode the network plugin or the administrator of the nodes must do it.`,
}
