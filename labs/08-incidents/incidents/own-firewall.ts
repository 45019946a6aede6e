import type { Incident } from '../../../course/incident/incident.ts'
import type { IncidentEnvironment } from '../../../course/incident/shop.ts'
import { runOn } from '../../../course/typed-commands.ts'
import { stateOf } from '../../../grading/snapshot.ts'

const COMMENT = 'close-shop'
const rule = ({ shop }: IncidentEnvironment) =>
  `INPUT -d ${shop} -m set ! --match-set KUBE-CLUSTER-IP dst,dst -m comment --comment ${COMMENT} -j DROP`

export const ownFirewall: Incident = {
  id: 'own-firewall',
  cause: "a firewall rule of the node drops the replies to the node's own requests",
  mode: 'ipvs',
  stops: 'reply',
  sign: 'If a rule of the firewall dropped replies, Pods of the node would be served, programs of the node itself would not, and the counter of a rule in INPUT would grow.',
  report: ({ node, shop }) =>
    `Since a colleague tried to close all ports of ${shop} on ${node} except the shop's, programs in the node's own network get no answer from the shop. Pods of the node are served. The trial is over, and nothing of it is needed any longer.`,
  hints: [
    'Send the same request from the node and from the customer. Where do the replies to each of them go?',
    "A reply to the node's own request is delivered to the node, with the ClusterIP as its destination and the port of the client. Read filter INPUT with its counters.",
    'The set KUBE-CLUSTER-IP contains ports of Services, and no client uses one. Which rule matches the reply? Delete it.',
  ],
  break: (bench, environment) => bench.onNode(environment.node, `iptables -A ${rule(environment)}`),
  async symptom(context) {
    const { node, shop } = context.environment
    const url = `http://${shop}/`
    const answers = await context.fromNode(node, url, url)
    const bad = answers.find(({ status }) => status !== 200)
    const command = `make exec NODE=${node} CMD='curl -sS --max-time 2 ${url}'`
    return bad && { inspect: command, expected: 'an answer from the shop', actual: 'none' }
  },
  causeLeft({ snapshot, environment }) {
    const { node, shop } = environment
    const rules = stateOf(snapshot.node(node)).iptables.get('filter')?.get('INPUT')?.rules ?? []
    const found = rules.find(
      ({ spec }) => spec.includes(`-d ${shop}/32`) && / -j (DROP|REJECT)/.test(spec),
    )
    return found && `INPUT of ${node} still has: ${found.spec}`
  },
  fix: (environment) => runOn(environment.node, `iptables -D ${rule(environment)}`),
  debrief: `In IPVS mode every ClusterIP is an address of the node, and the node uses it as the source of its own requests to that
Service. So the reply is addressed to the ClusterIP, at the port of the client, which is in no set. The rule was written for new
connections and matched every packet. With -m conntrack --ctstate NEW it would have matched new connections only.`,
}
