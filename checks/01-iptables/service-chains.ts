import * as z from 'zod'
import { serviceHash } from '../../dataplane/kube-proxy/chain-names.ts'
import type { Service } from '../../dataplane/objects.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { type CheckContext, onceNoted } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { clusterService, findService, webService } from '../../grading/expect-object.ts'
import { expectThat, onNode } from '../../grading/failure.ts'
import { inChain } from '../../grading/predicted-part.ts'
import type { Truth } from '../../grading/question.ts'
import type { NodeView, Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'

/** The hash in the names of the chains of each port of a Service, in the order of its ports. */
const chainHashes = ({ namespace, name, ports }: Service): string[] =>
  ports.map((port) =>
    serviceHash(
      `${namespace}/${name}${port.name === '' ? '' : `:${port.name}`}`,
      port.protocol.toLowerCase(),
    ),
  )

/**
 * A Service's chains (KUBE-SVC-, -SVL-, -EXT-, -FW-, -XLB-), those of its endpoints, and the whole
 * of the other chains in `chains` (a table and a name, such as nat KUBE-SERVICES) equal the
 * prediction on every node.
 */
export function expectServiceChains(
  nodes: readonly NodeView[],
  service: Service,
  { chains, inspect, expected }: { chains: readonly string[]; inspect: string; expected: string },
): void {
  const hashes = chainHashes(service)
  const isOfService = (chain: string) => hashes.some((hash) => chain.endsWith(hash))
  const predicted = nodes.flatMap((node) => [
    ...(evaluate(node, 'iptables').expected.iptables.get('nat')?.values() ?? []),
  ])
  const jumps = predicted.filter(({ name }) => isOfService(name)).flatMap(({ rules }) => rules)
  const targets = new Set(jumps.map(({ spec }) => targetOf(spec)))
  const isOfEndpoint = (chain: string) => chain.startsWith('KUBE-SEP-') && targets.has(chain)
  expectNodes(nodes)
    .where(
      (where) =>
        inChain(...chains)(where) ||
        ('chain' in where && (isOfService(where.chain) || isOfEndpoint(where.chain))),
      inspect,
    )
    .equalPrediction('iptables', expected)
}

/**
 * A check, or the truth of a question, for nodes in iptables mode; fails on the first node in
 * another one.
 */
export const inIptablesMode =
  <Result>(check: (context: CheckContext) => Result) =>
  (context: CheckContext): Result => {
    expectNodes(context.nodes).runMode('iptables', {
      expected: 'kube-proxy in iptables mode, which this lab is about',
      hint: 'Bring iptables mode back, and remove what the other one left:',
      next: 'make iptables && make flush-nat',
    })
    return check(context)
  }

/** The answer of every node's kube-proxy to /proxyMode. */
export const modeAnswer = ({ nodes }: CheckContext): Truth => ({
  accepts: ['iptables'],
  inspect: onNode(nodes.at(-1)?.name ?? '', 'curl -s localhost:10249/proxyMode'),
  wrong: [
    {
      when: 'ipvs',
      because: 'That is the mode of lab 2. The process says what it uses; ask it, on a node.',
    },
    {
      when: 'nftables',
      because: 'It is intended to become the usual mode, and iptables is still the default.',
    },
    { when: 'userspace', because: 'No kube-proxy since 1.26 has that mode.' },
  ],
  because: 'It is the default on Linux, also where the ConfigMap has no mode.',
})

/**
 * With the lab's Services, kube-proxy's state on every node is exactly what the API objects
 * require.
 */
export function everythingAsPredicted({ nodes, snapshot }: CheckContext): void {
  webService(snapshot)
  expectJumpsFirst(nodes)
  expectNodes(nodes)
    .everything('iptables-save')
    .equalPrediction(
      'iptables',
      'exactly the chains and rules that follow from the Services and their endpoints, in their order',
    )
}

/** No foreign rule handles packets in the three built-in chains before kube-proxy's own rules. */
export function expectJumpsFirst(nodes: readonly NodeView[]): void {
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat POSTROUTING').jumpsFirstTo('KUBE-POSTROUTING')
}

/** `KUBE-SVC-…` of each port of a Service, in the order of its ports. */
const serviceChains = (service: Service): string[] =>
  chainHashes(service).map((hash) => `KUBE-SVC-${hash}`)

/** The chain of web's only port. */
export const webChain = (snapshot: Snapshot): string =>
  serviceChains(webService(snapshot).service)[0] ?? ''

/**
 * A Service's chain is named after a hash of its namespace, name, port name and protocol: the same
 * on every node.
 */
export function nameOfWebChain({ snapshot }: CheckContext): Truth {
  const chain = webChain(snapshot)
  const { name } = webService(snapshot)
  const isOf = (id: string, protocol: string) => (answer: string) =>
    answer.toUpperCase().endsWith(serviceHash(id, protocol))
  return {
    accepts: [chain, chain.replace('KUBE-SVC-', '')],
    inspect: `kubectl get service ${name} -o jsonpath='{.metadata.namespace}/{.metadata.name}'`,
    wrong: [
      {
        when: isOf(`default/${name}`, 'tcp\n'),
        because: 'A line end was hashed, too: `echo` writes one, `printf %s` does not.',
      },
      {
        when: isOf(`default/${name}`, 'TCP'),
        because: 'The protocol is hashed in lower case.',
      },
      {
        when: isOf(`default/${name}`, ''),
        because:
          'The protocol is missing: the same Service may have the same port for TCP and UDP.',
      },
      {
        when: isOf(`default/${name}:`, 'tcp'),
        because: 'A colon belongs to the name of a port, and this port has no name.',
      },
      {
        when: (answer) => answer.toUpperCase().startsWith('KUBE-SEP-'),
        because:
          'KUBE-SEP- chains belong to single endpoints; the Service port has a KUBE-SVC- chain.',
      },
    ],
    because:
      'Every kube-proxy computes the same name from the Service, without asking another one.',
  }
}

/**
 * PREROUTING and OUTPUT jump to KUBE-SERVICES, which jumps to web's chain, which jumps to one chain
 * with a DNAT for each endpoint.
 */
export function chainsLeadToPods({ nodes, snapshot }: CheckContext): void {
  const { service, backends } = webService(snapshot)
  const chain = webChain(snapshot)
  expectNodes(nodes).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')
  expectNodes(nodes).chain('nat OUTPUT').jumpsFirstTo('KUBE-SERVICES')
  expectServiceChains(nodes, service, {
    chains: ['nat PREROUTING', 'nat OUTPUT', 'nat KUBE-SERVICES'],
    inspect: `iptables -t nat -S KUBE-SERVICES; iptables -t nat -S ${chain}`,
    expected: `an entry for the Service in KUBE-SERVICES, ${chain} behind it, and a KUBE-SEP- chain with a DNAT for each ready Pod`,
  })
  expectThat(backends.length > 0, {
    inspect: 'kubectl get endpointslices -l app=web',
    expected: `a ready Pod for ${chain} to lead to`,
    actual: 'none',
  })
}

/** The probability in the second rule of web's chain: with n Pods, 1/(n-1). */
export function probabilityOfSecondRule({ nodes, snapshot }: CheckContext): Truth {
  const { backends } = webService(snapshot)
  const inspect = onNode(nodes.at(-1)?.name ?? '', `iptables -t nat -S ${webChain(snapshot)}`)
  // The last rule has no probability; with two Pods that is the second rule.
  expectThat(backends.length >= 3, {
    inspect,
    expected: 'three ready Pods or more, so that the second rule has a probability',
    actual: `${backends.length}`,
    next: personalise('kubectl scale deployment web --replicas=5', variantIn(snapshot)),
  })
  const count = backends.length
  return {
    accepts: [`1/${count - 1}`],
    inspect,
    wrong: [
      {
        when: `1/${count}`,
        because: `That is the first rule. A 1/${count} of what the first rule leaves is less than a 1/${count} of all.`,
      },
      { when: '1', because: 'Only the last rule takes everything that reaches it.' },
    ],
    because: `The second rule sees ${count - 1}/${count} of the packets, and 1/${count - 1} of them is 1/${count} of all.`,
  }
}

const BEFORE = 'endpoints-before-scaling'

const count = z.number().positive()

/** Notes the number of endpoints of the Service web at the first check. */
export function keepEndpoints({ snapshot, notes }: CheckContext): void {
  if (!findService(snapshot, variantIn(snapshot).name)) return
  const { backends } = webService(snapshot)
  if (backends.length > 0) notes.keep(BEFORE, backends.length)
}

/** The number of Pods changed, and with it the EndpointSlices and the rules of every node. */
export const rulesFollowScaling = onceNoted('scaled', count, (context) => {
  const { snapshot, notes } = context
  const { backends } = webService(snapshot)
  const before = notes.read(BEFORE, count) ?? backends.length
  expectThat(backends.length !== before, {
    inspect: 'kubectl get endpointslices -l app=web',
    expected: `a number of ready Pods other than the previous ${before}`,
    actual: `${backends.length}, as before`,
    next: personalise('kubectl scale deployment web --replicas=5', variantIn(snapshot)),
  })
  inIptablesMode(chainsLeadToPods)(context)
  return backends.length
})

const NAME = 'three-ports'
const PORTS = 3

/**
 * A Service with three ports has three rules in KUBE-SERVICES of every node, and a chain for each.
 */
export function portsCostEntries({ nodes, snapshot }: CheckContext): void {
  const { service, address } = clusterService(snapshot, NAME, {
    ports: PORTS,
    expected: `a Service ${NAME} with a ClusterIP and ${PORTS} ports`,
    next: 'kubectl apply -f labs/01-iptables/manifests/three-services.yaml',
  })
  const chains = serviceChains(service)
  expectNodes(nodes)
    .natChains(
      (chain) => chain === 'KUBE-SERVICES' || chains.includes(chain),
      'iptables -t nat -S KUBE-SERVICES',
    )
    .equalPrediction('iptables', 'one entry for every Service port, and the node-ports rule last')
  for (const chain of chains)
    expectNodes(nodes)
      .chain('nat KUBE-SERVICES')
      .hasRule(`-j ${chain}`, {
        expected: `${service.ports.length} entries for ${address}, each with its own chain`,
        missing: `no entry leads to ${chain}`,
        hint: 'A Service without ready Pods has no entries here, and this one selects the Pods of web. Start them:',
        next: 'make web',
      })
}
