import type { Finding } from '../../dataplane/compare.ts'
import { isServiceChain } from '../../dataplane/kube-proxy/chain-names.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'
import { httpRequest } from '../../grading/http-requests.ts'
import { traceLine } from '../../grading/packet-trace.ts'
import type { NodeView } from '../../grading/snapshot.ts'

const NOTE = 'chains-left-by-iptables'

const isChainCount = (value: unknown): value is Record<string, number> =>
  typeof value === 'object' && value !== null && Object.values(value).some((count) => Number(count) > 0)

/** The old chains were seen on every node while they were there; what was seen is kept in the cluster. */
export function leftoversCounted({ nodes, notes, live }: CheckContext): void {
  if (notes.read(NOTE, isChainCount)) return
  expectNodes(nodes).runMode('ipvs', {
    expected: 'kube-proxy in ipvs mode, after the switch',
    hint: 'make ipvs makes the switch.',
  })
  const counts = Object.fromEntries(nodes.map((node) => [node.name, staleServiceChains(node)]))
  const clean = nodes.find((node) => counts[node.name] === 0)
  if (!clean) {
    notes.keep(NOTE, counts)
    return
  }
  if (!live) throw new NotApplicable('the chains were flushed before this capture was taken')
  fail({
    node: clean.name,
    look: `make exec NODE=${clean.name} CMD='iptables-save -t nat | grep -cE "^:KUBE-(SVC|SEP)"'`,
    expected: 'chains KUBE-SVC-… and KUBE-SEP-… on every node, from before the switch',
    actual: 'none: they were flushed before the grader saw them',
    hint: 'Go round once more: make iptables, make ipvs, make check-2 STEP=leftovers.',
  })
}

const staleServiceChains = ({ state }: NodeView) =>
  [...(state.iptables.get('nat')?.keys() ?? [])].filter(isServiceChain).length

/** No chain, rule or jump of iptables mode is left, the filter table is IPVS mode's own, and the Service answers. */
export async function nothingLeft({ nodes, live }: CheckContext, service?: { address: string; port: number }) {
  expectNodes(nodes)
    .where(
      (_where, finding) => isAboutWholeTables(finding),
      'iptables-save | grep -E "KUBE-(SVC|SEP|EXTERNAL-SERVICES|NODEPORTS)"',
    )
    .equalPrediction('ipvs', 'only the chains and jumps that IPVS mode has itself')
  if (!live || !service) return
  const url = `http://${service.address}:${service.port}/`
  const answers = await Promise.all(
    nodes.map(async (node) => ({
      node,
      ...(await live.onNode(node.name, httpRequest(service.address, service.port))),
    })),
  )
  const silent = answers.find(({ exitCode }) => exitCode !== 0)
  if (silent)
    fail({
      node: silent.node.name,
      look: `make exec NODE=${silent.node.name} CMD="curl -sS --max-time 3 ${url}"`,
      expected: 'an answer of the Service web',
      actual: silent.stderr.trim().split('\n')[0] || 'none',
      differences: traceLine(silent.node, 'node', service),
      hint: 'The virtual server or its way back is broken: make check-2 shows which of the later steps says so.',
    })
}

/** Whole chains of nat that are one too many or missing, and everything in the other tables. */
function isAboutWholeTables({ where, kind, expected, actual, interferes }: Finding): boolean {
  if (!('chain' in where) || interferes) return false
  if (where.table !== 'nat') return true
  const isChain = (kind === 'stale' ? actual : expected)?.startsWith(':') ?? false
  return isChain && (kind === 'stale' || kind === 'missing')
}

/** For tests and texts: how many findings of this kind a node has. */
export function leftoverFindings(node: NodeView): Finding[] {
  return evaluate(node, 'ipvs').differences.filter(isAboutWholeTables)
}
