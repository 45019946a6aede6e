import { z } from 'zod'
import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { multisetDifference } from '../../dataplane/compare/finding.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { type Check, type CheckContext, holdsOnceSeen } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import type { WebService } from '../../grading/expect-object.ts'
import { expectFound, expectOnNode, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import type { Difference } from '../../grading/report-schema.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import { expectJumpsFirst } from '../01-iptables/service-chains.ts'
import { connect, type DeafEndpoint, deafEndpoint, expectConnections } from './connections.ts'

const RELAY_NOTE = 'rules-that-led-to-listeners'
const HINT = 'make userspace'
/** A multiple of the two Pods that answer. */
const CONNECTIONS = 18
const LOG_SECONDS = 60

/** Only the embedded cluster runs an old enough kube-proxy. */
function requireUserspace({ live }: Pick<CheckContext, 'live'>): void {
  if (live && live.cluster.driver !== 'embedded')
    throw new NotApplicable(
      'userspace mode ended with kube-proxy 1.25, and only the embedded cluster runs such an old version',
    )
}

/** The chains with kube-proxy's rules in this mode, and with jumps to them. */
const CHAINS = [
  ['nat', 'PREROUTING'],
  ['nat', 'OUTPUT'],
  ['nat', 'KUBE-PORTALS-CONTAINER'],
  ['nat', 'KUBE-PORTALS-HOST'],
  ['nat', 'KUBE-NODEPORT-CONTAINER'],
  ['nat', 'KUBE-NODEPORT-HOST'],
  ['filter', 'INPUT'],
  ['filter', 'KUBE-NODEPORT-NON-LOCAL'],
] as const
const OWN_CHAINS = new Set<string>(CHAINS.flatMap(([, chain]) => (chain.startsWith('KUBE-') ? chain : [])))

/** The kernel chooses the listeners' ports, so they cannot be predicted. */
const withoutPort = (spec: string): string =>
  spec.replace(/--to-ports \d+/, '--to-ports …').replace(/(--to-destination \S+):\d+/, '$1:…')

const rulesIn = ({ iptables }: NodeState, table: string, chain: string): string[] =>
  (iptables.get(table)?.get(chain)?.rules ?? []).map(({ spec }) => withoutPort(spec))

const LIST_PORTALS = 'iptables -t nat -S KUBE-PORTALS-CONTAINER; iptables -t nat -S KUBE-PORTALS-HOST'

/** The rules that redirect to listeners, and the jumps to them, are as predicted on a node. Fails with every difference. */
function expectPortals(node: NodeView): void {
  const differences = CHAINS.flatMap(([table, chain]): Difference[] => {
    const { missing, stale } = multisetDifference(
      rulesIn(evaluate(node, 'userspace').expected, table, chain),
      rulesIn(stateOf(node), table, chain),
    )
    const line = (kind: 'missing' | 'stale', spec: string) => ({
      kind,
      text: `${table} ${chain}: ${kind} rule "${spec}"`,
    })
    // Stale jumps of iptables mode remain below them until they are flushed.
    const more = OWN_CHAINS.has(chain) ? stale : stale.filter((spec) => OWN_CHAINS.has(targetOf(spec) ?? ''))
    return [...missing.map((spec) => line('missing', spec)), ...more.map((spec) => line('stale', spec))]
  })
  expectOnNode(node.name, LIST_PORTALS, differences.length === 0, {
    expected: 'a rule for every Service port that leads to a port of the node itself, and the jumps to these rules',
    actual: differences[0]?.text ?? '',
    differences,
  })
}

/**
 * A Service port has one listener for packets from any source: packets of the node itself are redirected to the same port as
 * all others.
 */
function expectOneListener(node: NodeView): void {
  const portsIn = (chain: string) =>
    new Map(
      (stateOf(node).iptables.get('nat')?.get(chain)?.rules ?? []).map(({ spec }) => [
        spec.slice(0, spec.indexOf(' -j ')),
        / --to-(?:ports |destination \S+:)(\d+)/.exec(spec)?.[1],
      ]),
    )
  const ofHost = portsIn('KUBE-PORTALS-HOST')
  for (const [packets, port] of portsIn('KUBE-PORTALS-CONTAINER')) {
    const own = ofHost.get(packets)
    expectOnNode(node.name, LIST_PORTALS, own === port, {
      expected: `packets ${packets} led to one listener by both chains`,
      actual: `port ${port} in KUBE-PORTALS-CONTAINER, port ${own} in KUBE-PORTALS-HOST`,
    })
  }
}

/** The port that the rules of a node redirect a Service to; undefined without such a rule. */
function listenerOf(node: NodeView, { address, port }: WebService): number | undefined {
  const rules = stateOf(node).iptables.get('nat')?.get('KUBE-PORTALS-CONTAINER')?.rules ?? []
  const own = rules.find(({ spec }) => spec.includes(`-d ${address}/32 `) && spec.includes(`--dport ${port} `))
  const redirected = / --to-ports (\d+)/.exec(own?.spec ?? '')?.[1]
  return redirected === undefined ? undefined : Number(redirected)
}

/** A step that passes once it was proven while every kube-proxy ran in userspace mode. */
const onceInUserspaceMode =
  (note: string, prove: (context: CheckContext) => Promise<object>): Check =>
  async (context) => {
    requireUserspace(context)
    await holdsOnceSeen(context, note, () => {
      expectMode(context, 'userspace', { hint: HINT })
      return prove(context)
    })
  }

/** Each rule redirects to a port of the node, on which kube-proxy listens. */
export const rulesLeadToListeners = onceInUserspaceMode(RELAY_NOTE, async (context) => {
  const { nodes, live } = context
  const { service } = deafEndpoint(context)
  for (const node of nodes) expectPortals(node)
  for (const node of nodes) expectOneListener(node)
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-PORTALS-CONTAINER')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-PORTALS-HOST')
  const ports: Record<string, number> = {}
  for (const node of nodes) {
    const port = expectFound(listenerOf(node, service), {
      node: node.name,
      inspect: onNode(node.name, 'iptables -t nat -S KUBE-PORTALS-CONTAINER'),
      expected: `a rule that redirects ${service.address}:${service.port}`,
    })
    if (live)
      await expectListener(live, { node: node.name, port }, (addresses) => addresses.length > 0, {
        expected: `kube-proxy's listener on port ${port}, to which the rules of web redirect`,
        hint: 'Its log shows whether it runs:',
        next: 'make kube-proxy-logs',
      })
    ports[node.name] = port
  }
  return ports
})

/** No connection fails because of the deaf Pod, because kube-proxy tries the next one, and logs it. */
export const noConnectionFails = onceInUserspaceMode('connections-tried-again', async (context) => {
  const { live } = context
  const endpoint = deafEndpoint(context)
  if (!live) return { at: 'a capture' }
  const { service, healthy, node } = endpoint
  const { sent, failed, answered } = await connect(context, live, service, CONNECTIONS)
  const fewest = Math.min(...healthy.map(({ pod }) => answered.find((one) => one.pod === pod)?.requests ?? 0))
  expectConnections(service.address, service.port, {
    node,
    holds: failed === 0 && sent >= CONNECTIONS && fewest >= CONNECTIONS / healthy.length - 2,
    expected: `an answer to each of ${CONNECTIONS} connections, from the Pods of web in turn`,
    actual: `${failed} of ${sent} failed; ${answered.map(({ pod, requests }) => `${pod} answered ${requests}`).join(', ')}`,
  })
  return { sent, failed, refused: await refusalsInLog(context, live, endpoint) }
})

/** The number of log lines about the deaf Pod of the kube-proxy on the client's node. Fails without any. */
async function refusalsInLog(
  { snapshot }: CheckContext,
  live: LiveCluster,
  { deaf, node }: DeafEndpoint,
): Promise<number> {
  const pod = kubeProxyPods(snapshot.items).find(({ spec }) => spec?.nodeName === node)?.metadata.name ?? ''
  const log = await live.log({ namespace: 'kube-system', name: pod }, LOG_SECONDS)
  const lines = log.split('\n').filter((line) => line.includes('Dial failed') && line.includes(`${deaf.address}:`))
  return expectFound(lines.length || undefined, {
    node,
    inspect: `kubectl -n kube-system logs ${pod} --tail=20`,
    expected: `lines of kube-proxy with "Dial failed" for ${deaf.address}`,
    actual: 'none in the last minute',
  })
}

/** Question: the client that web logs when kube-proxy relays: an address of the client's node. */
export function addressThatWebSees(context: CheckContext): Truth {
  requireUserspace(context)
  expectMode(context, 'userspace', { hint: HINT })
  const { node } = deafEndpoint(context)
  const addresses = stateOf(context.snapshot.node(node))
    .links.filter(({ name }) => name !== 'lo')
    .flatMap((link) => link.addresses)
    .filter(({ family }) => family === 'inet')
  return { accepts: addresses.map(({ address }) => address), inspect: 'kubectl logs -l app=web --tail=1' }
}

/** Fails unless the grader has observed every node in that mode; not applicable for an earlier capture. */
export function mustHaveSeen(
  { notes, nodes, live }: CheckContext,
  mode: 'userspace' | 'nftables',
  { note, inspect, hint }: { note: string; inspect: string; hint: string },
): void {
  const wasSeen = notes.read(note, z.looseObject({})) !== undefined
  if (!wasSeen && !live) throw new NotApplicable(`${mode} mode had not been seen when this capture was taken`)
  expectThat(wasSeen, {
    inspect: onNode(nodes.at(-1)?.name ?? '', inspect),
    expected: `that ${mode} mode was seen on every node before the return`,
    actual: 'the grader has not seen it',
    hint,
  })
}

/**
 * After userspace mode was observed: the cluster's own kube-proxy in iptables mode, and no state of the old version on any
 * node.
 */
export function nothingOfUserspace(context: CheckContext): void {
  requireUserspace(context)
  mustHaveSeen(context, 'userspace', {
    note: RELAY_NOTE,
    inspect: 'curl -s localhost:10249/proxyMode',
    hint: 'make userspace, then make check-7 STEP=relay.',
  })
  expectMode(context, 'iptables', { hint: 'make iptables KUBE_PROXY_VERSION=own, then make flush-nat' })
  expectIptablesModeOnly(context)
}

/** Every node has the predicted rules of iptables mode, before foreign rules, and no state of another mode. */
export function expectIptablesModeOnly({ nodes }: Pick<CheckContext, 'nodes'>): void {
  expectNodes(nodes).nothingOfOtherModes('iptables', { inspect: 'iptables-save | grep "^:KUBE-"' })
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction('iptables', 'exactly the chains and rules that follow from the Services and their endpoints')
  expectJumpsFirst(nodes)
}
