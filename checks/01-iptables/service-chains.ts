import { serviceHash } from '../../dataplane/kube-proxy/ruleset-builder.ts'
import type { Service } from '../../dataplane/objects.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { inChain } from '../../grading/difference-report.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import type { NodeView } from '../../grading/snapshot.ts'

/** The hash in the names of the chains of each port of a Service, in the order of its ports. */
export const chainHashes = ({ namespace, name, ports }: Service): string[] =>
  ports.map((port) =>
    serviceHash(`${namespace}/${name}${port.name === '' ? '' : `:${port.name}`}`, port.protocol.toLowerCase()),
  )

/**
 * Every chain of a Service (KUBE-SVC-, KUBE-SVL-, KUBE-EXT-, KUBE-FW-, KUBE-XLB-), those of its endpoints, and these other
 * chains equal the prediction on every node.
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
        inChain(...chains)(where) || ('chain' in where && (isOfService(where.chain) || isOfEndpoint(where.chain))),
      inspect,
    )
    .equalPrediction('iptables', expected)
}
