import * as z from 'zod'
import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { Difference, Where } from '../../dataplane/compare.ts'
import { targetOf } from '../../dataplane/rule.ts'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { type WebService, webService } from '../../grading/expect-object.ts'
import { expectFound, NotApplicable, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { inChain } from '../../grading/predicted-part.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { expectListener } from '../../grading/traffic.ts'
import {
  type DeafEndpoint,
  deafEndpoint,
  expectConnections,
  openConnections,
} from './connections.ts'
import { backInIptablesMode, type ModeVisit, onceInMode } from './mode-visit.ts'

/** A multiple of the two Pods that answer. */
const CONNECTIONS = 18
const LOG_SECONDS = 60

const visit: ModeVisit = {
  mode: 'userspace',
  step: 'relay',
  note: 'rules-that-led-to-listeners',
  inspect: 'curl -s localhost:10249/proxyMode',
  back: 'make iptables KUBE_PROXY_VERSION=own',
  require({ live }) {
    if (live && !live.cluster.capabilities.runsOldKubeProxies)
      throw new NotApplicable(
        'userspace mode ended with kube-proxy 1.25, and only the embedded cluster runs such an old version',
      )
  },
}

const LIST_PORTALS =
  'iptables -t nat -S KUBE-PORTALS-CONTAINER; iptables -t nat -S KUBE-PORTALS-HOST'
const OWN_CHAINS = /^KUBE-(?:PORTALS|NODEPORT)-/
const JUMPING = inChain('nat PREROUTING', 'nat OUTPUT', 'filter INPUT')

/**
 * kube-proxy's chains in this mode, and the jumps to them. Stale jumps of iptables mode remain
 * below these until they are flushed.
 */
const isOfUserspace = (where: Where, { kind, actual = '' }: Difference): boolean =>
  ('chain' in where && OWN_CHAINS.test(where.chain)) ||
  (JUMPING(where) && (kind !== 'stale' || OWN_CHAINS.test(targetOf(actual) ?? '')))

/** The port that the rules of a node redirect a Service to; undefined without such a rule. */
function listenerOf(node: NodeView, { address, port }: WebService): number | undefined {
  const rules = stateOf(node).iptables.get('nat')?.get('KUBE-PORTALS-CONTAINER')?.rules ?? []
  const own = rules.find(
    ({ spec }) => spec.includes(`-d ${address}/32 `) && spec.includes(`--dport ${port} `),
  )
  const redirected = / --to-ports (\d+)/.exec(own?.spec ?? '')?.[1]
  return redirected === undefined ? undefined : Number(redirected)
}

/** Each rule redirects to a port of the node, on which kube-proxy listens. */
export const rulesLeadToListeners = onceInMode(visit, visit.note, async (context) => {
  const { nodes, live } = context
  const { service } = deafEndpoint(context)
  expectNodes(nodes)
    .where(isOfUserspace, LIST_PORTALS)
    .equalPrediction(
      'userspace',
      'a rule for every Service port that leads to a port of the node itself, and the jumps to these rules',
    )
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

/** Prediction: to what the rule of a Service leads in userspace mode. */
export const whereTheRuleLeads = (): Truth => ({
  accepts: ['a-port-of-the-node'],
  inspect: 'iptables -t nat -S KUBE-PORTALS-CONTAINER',
  wrong: [
    {
      when: 'a-pod',
      because:
        'In this mode no rule contains a Pod: a process chooses, after it has accepted the connection.',
    },
    {
      when: 'a-chain-of-endpoints',
      because: 'That is iptables mode. Here there is one rule for each Service port, and no more.',
    },
  ],
  because:
    'REDIRECT delivers the packet to the node itself, where kube-proxy listens on that port.',
})

const portsNote = z.record(z.string(), z.number())

/** Question: the port to which the rules of the client's node redirect web. */
export async function portOnTheNode(context: CheckContext): Promise<Truth> {
  await visit.require(context)
  const { notes, nodes } = context
  const { service, client } = deafEndpoint(context)
  const now = Object.fromEntries(
    nodes.map((node) => [node.name, listenerOf(node, service)] as const),
  )
  const ports = now[client.node] === undefined ? notes.read(visit.note, portsNote) : now
  const port = expectFound(ports?.[client.node], {
    node: client.node,
    inspect: onNode(client.node, LIST_PORTALS),
    expected: `a rule that redirects ${service.address}:${service.port}`,
    next: 'make userspace',
  })
  const others = Object.entries(ports ?? {}).filter(
    ([name, other]) => name !== client.node && other !== port,
  )
  return {
    accepts: [String(port)],
    inspect: onNode(client.node, 'iptables -t nat -S KUBE-PORTALS-CONTAINER'),
    wrong: [
      ...others.map(([name, other]) => ({
        when: String(other),
        because: `That is the port on ${name}. Each kube-proxy has listeners of its own, and the client runs on ${client.node}.`,
      })),
      {
        when: String(service.port),
        because:
          "That is the Service's own port. The rule matches it, and redirects to another one.",
      },
    ],
    because: 'A port of the node, on which kube-proxy itself accepts the connection.',
  }
}

/** Prediction: how many connections fail in userspace mode. */
export const failuresWithRetry = (): Truth => ({
  accepts: ['0'],
  inspect: 'make check-7 STEP=retried',
  wrong: [
    {
      when: (answer) => Number(answer) > 0,
      because:
        'So it was where rules forward. A process that is refused by one Pod dials the next one, and the client waits meanwhile.',
    },
  ],
  because: 'kube-proxy dialled deaf in its turn, was refused, and tried the next endpoint.',
})

/**
 * Prediction: which rules of userspace mode kube-proxy itself removes when it starts in iptables
 * mode.
 */
export const rulesThatStay = (): Truth => ({
  accepts: ['none'],
  inspect: 'iptables -t nat -S PREROUTING',
  wrong: [
    {
      when: 'all',
      because:
        'kube-proxy cleans up after another mode only if one of the two is nftables mode. PREROUTING still had the jumps.',
    },
    {
      when: 'those-of-deleted-services',
      because: 'A kube-proxy in iptables mode does not know the chains of userspace mode at all.',
    },
  ],
  because:
    'They stay, and lead to ports without a listener, until they are flushed or the node reboots.',
})

/**
 * No connection fails because of the deaf Pod, because kube-proxy tries the next one, and logs it.
 */
export const noConnectionFails = onceInMode(
  visit,
  'connections-tried-again',
  async (context: LiveContext) => {
    const { live } = context
    const endpoint = deafEndpoint(context)
    const { service, healthy, client } = endpoint
    const { sent, failed, answered } = await openConnections(context, live, service, CONNECTIONS)
    const fewest = Math.min(
      ...healthy.map(({ pod }) => answered.find((one) => one.pod === pod)?.requests ?? 0),
    )
    expectConnections(context, service, {
      node: client.node,
      holds: failed === 0 && sent >= CONNECTIONS && fewest >= CONNECTIONS / healthy.length - 2,
      expected: `an answer to each of ${CONNECTIONS} connections, from the Pods of web in turn`,
      actual: `${failed} of ${sent} failed; ${answered.map(({ pod, requests }) => `${pod} answered ${requests}`).join(', ')}`,
    })
    return { sent, failed, refused: await refusalsInLog(context, live, endpoint) }
  },
)

/**
 * The number of log lines about the deaf Pod of the kube-proxy on the client's node. Fails without
 * any.
 */
async function refusalsInLog(
  { snapshot }: CheckContext,
  live: LiveCluster,
  { deaf, client: { node } }: DeafEndpoint,
): Promise<number> {
  const pod =
    kubeProxyPods(snapshot.items).find(({ spec }) => spec?.nodeName === node)?.metadata.name ?? ''
  const log = await live.log({ namespace: 'kube-system', name: pod }, LOG_SECONDS)
  const lines = log
    .split('\n')
    .filter((line) => line.includes('Dial failed') && line.includes(`${deaf.address}:`))
  return expectFound(lines.length || undefined, {
    node,
    inspect: `kubectl -n kube-system logs ${pod} --tail=20`,
    expected: `lines of kube-proxy with "Dial failed" for ${deaf.address}`,
    actual: 'none in the last minute',
  })
}

/** Question: the client that web logs when kube-proxy relays: an address of the client's node. */
export async function addressThatWebSees(context: CheckContext): Promise<Truth> {
  await visit.require(context)
  expectMode(context, 'userspace', { next: 'make userspace' })
  const { client } = deafEndpoint(context)
  const addresses = stateOf(context.snapshot.node(client.node))
    .links.filter(({ name }) => name !== 'lo')
    .flatMap((link) => link.addresses)
    .filter(({ family }) => family === 'inet')
  return {
    accepts: addresses.map(({ address }) => address),
    inspect: 'kubectl logs -l app=web --tail=1',
    wrong: [
      {
        when: client.address,
        because:
          "That is the client's own address, which web saw in iptables mode. Now kube-proxy has opened the connection that web accepted.",
      },
      {
        when: webService(context.snapshot).address,
        because: 'The ClusterIP is the address that the client calls. Nothing sends from it.',
      },
    ],
    because:
      "An address of the client's node, because the process that opened the second connection runs there.",
  }
}

/** The cluster's own kube-proxy in iptables mode, and no state of the old version on any node. */
export const nothingOfUserspace = backInIptablesMode(visit)
