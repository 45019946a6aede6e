import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const PLACE = ['KUBE-EXTERNAL-SERVICES', 'KUBE-SERVICES']

/** Leads partners to nobody, as for the night, or to the shop again. */
const leadTo = (actions: ClusterActions, app: string) =>
  actions.patchService('shop-np', { spec: { selector: { app } } })

/** Every node refuses partners by a rule of iptables mode. */
async function refusedEverywhere(actions: ClusterActions): Promise<void> {
  const look =
    'for _ in $(seq 50); do iptables -S KUBE-EXTERNAL-SERVICES | grep -q REJECT && exit; sleep 0.1; done; exit 1'
  await actions.onEveryNode(look)
}

export const staleReject: Incident = {
  id: 'stale-reject',
  cause: 'rules of the previous mode still reject packets',
  mode: 'ipvs',
  from: 'iptables',
  report: ({ nodePort }) =>
    `We closed the shop to partners for the night, had kube-proxy moved to IPVS meanwhile, and opened again. Customers in Pods are served. Partners are refused at once on port ${nodePort} of every node.`,
  hints: [
    "The virtual servers have their real servers. Does a partner's packet ever reach IPVS?",
    'IPVS takes packets after the chain INPUT of the filter table. Read it, and the chains that it jumps to, with counters.',
    'Chains that kube-proxy wrote in iptables mode are still there, and one of them still has a rule of that night. Which make target removes what a mode left?',
  ],
  async break(actions) {
    await leadTo(actions, 'nobody')
    await refusedEverywhere(actions)
    await actions.bench.mode('ipvs')
    await leadTo(actions, 'shop')
  },
  symptom: (look) => look.nodePortEverywhere(),
  causeLeft({ nodes }) {
    for (const { name, state } of nodes) {
      const chains = state.iptables.get('filter')
      const chain = PLACE.find((one) => chains?.get(one)?.rules.some(({ spec }) => spec.includes('-j REJECT')))
      if (chain) return `${chain} on ${name} still rejects packets for a Service that has endpoints again`
    }
    return undefined
  },
  wrongFixes: [
    {
      what: 'the rule is deleted on one node',
      play: (actions) => actions.onNode(actions.scene.nodes[0] ?? '', 'iptables -F KUBE-EXTERNAL-SERVICES'),
    },
  ],
  fix: { commands: () => ['make flush-nat'], play: (actions) => actions.bench.flush() },
  debrief: `In iptables mode a Service without endpoints gets REJECT rules in the filter table. After the switch nothing updates them:
kube-proxy in IPVS mode writes other chains, and the old jumps still lead to the REJECT of a night without endpoints. Pods are
served because their packets pass neither rule on the way to IPVS. After each switch of the mode, flush the old rules.`,
}
