import type { Incident } from '../../../course/incident/incident.ts'
import { type IncidentEnvironment, incidentFact } from '../../../course/incident/shop.ts'
import type { LabBench } from '../../../course/lab-bench.ts'
import { runOn } from '../../../course/typed-commands.ts'
import { waitFor } from '../../../host/wait.ts'

const MANIFEST = 'labs/08-incidents/manifests/price-feed.yaml'
const FEED = 'prices'
const TILL = { namespace: 'default', name: 'till' }
const PORT = 5353
/** The till always sends from this port. */
const TILL_PORT = 5300
/** How many seconds of the till's log are read: two or three of its requests. */
const WINDOW = 4

const asking = (address: string, port: number) =>
  `echo price | timeout 2 socat -t 0.5 - UDP4:${address}:${PORT},sourceport=${port},reuseaddr 2>/dev/null`
/** An unused address in the node's Pod range, as of a deleted Pod of the feed. */
const gone = ({ customer }: IncidentEnvironment) => customer.replace(/\d+$/, '249')
const detour = (environment: IncidentEnvironment) =>
  `PREROUTING -d ${incidentFact(environment, 'address')} -p udp --sport ${TILL_PORT} -j DNAT --to-destination ${gone(environment)}:${PORT}`

/**
 * Creates a flow to a deleted Pod, as if kube-proxy had not run when the Pod was replaced; the till
 * keeps it alive.
 */
async function openTill(bench: LabBench, environment: IncidentEnvironment): Promise<void> {
  const { client } = bench
  await bench.onNode(environment.node, `iptables -t nat -I ${detour(environment)}`)
  const ask = asking(incidentFact(environment, 'address'), TILL_PORT)
  const command = [
    'sh',
    '-c',
    `while sleep 1; do price=$(${ask}); echo "\${price:-no answer}"; done`,
  ]
  const containers = [
    { name: 'till', image: 'nicolaka/netshoot', imagePullPolicy: 'IfNotPresent', command },
  ]
  const spec = { nodeName: environment.node, terminationGracePeriodSeconds: 1, containers }
  await bench.create('Pod', TILL.name, { lab: 'incidents' }, { spec })
  await waitFor('the till to be left without an answer', 60_000, async () => {
    const log = await client.core.readNamespacedPodLog(TILL).catch(() => '')
    return log.includes('no answer')
  })
  await bench.onNode(environment.node, `iptables -t nat -D ${detour(environment)}`)
}

export const staleConnection: Incident = {
  id: 'stale-connection',
  cause: 'conntrack still sends an old flow to a Pod that does not exist',
  mode: 'iptables',
  sign: 'If conntrack kept an old flow, only the client with that source port would be affected: `conntrack -L -p udp` would show an address that no Pod has.',
  report: ({ facts }) =>
    `The Pod till requests prices from the feed at ${facts.address}:${PORT} by UDP, always from its port ${TILL_PORT}, and logs "no answer" since the feed's Pod was replaced. All other clients get prices.`,
  hints: [
    'Request a price from another Pod, or from another port. What translated that request, and what translates the datagrams of the till?',
    'The rules are correct, as `make trace` shows. But rules are only evaluated for the first packet of a flow.',
    'Run `conntrack -L -p udp` on the node of the till and compare the two halves of each entry with the existing Pods.',
  ],
  async break(bench, environment) {
    await bench.apply(MANIFEST)
    const { clusterIP: address = '' } = await bench.service(FEED)
    environment.facts.address = address
    const other = asking(address, TILL_PORT - 1)
    await waitFor(
      'the feed to answer',
      60_000,
      async () => (await bench.inPod('customer', `${other} || true`)).trim() !== '',
    )
    await openTill(bench, environment)
  },
  async symptom({ live }) {
    const lines = (await live.log(TILL, WINDOW)).trim().split('\n')
    if (lines.at(-1)?.includes('pence')) return undefined
    return {
      inspect: 'kubectl logs till --tail=3',
      expected: 'prices',
      actual: lines.at(-1) || 'nothing',
    }
  },
  async causeLeft({ live, environment }) {
    const { stdout } = await live.onNode(environment.node, 'conntrack -L -p udp 2>/dev/null')
    const found = stdout.includes(`src=${gone(environment)} `)
    return found
      ? `conntrack on ${environment.node} still has a flow to ${gone(environment)}, which no Pod has`
      : undefined
  },
  fix: (environment) =>
    runOn(
      environment.node,
      `conntrack -D -p udp --orig-dst ${incidentFact(environment, 'address')}`,
    ),
  async revert(bench) {
    await Promise.all([
      bench.delete('Pod', TILL.name),
      bench.delete('Service', FEED),
      bench.delete('Deployment', FEED),
    ])
  },
  debrief: `The nat table is evaluated once for each flow, and conntrack repeats the result. A TCP connection to a Pod that is gone ends
by itself; UDP has no end, and a client that keeps its source port keeps its flow alive with every datagram. kube-proxy
deletes such entries when an endpoint is removed, but only while it runs and watches (newer versions also check when they
start).`,
}
