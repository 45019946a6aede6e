import * as z from 'zod'
import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { Difference } from '../../dataplane/compare.ts'
import { isServiceChain } from '../../dataplane/kube-proxy/chain-names.ts'
import { type CheckContext, onceNoted } from '../../grading/check-context.ts'
import { configOf, evaluate } from '../../grading/evaluate.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { findService, webService } from '../../grading/expect-object.ts'
import { expectOnNode, expectThat, NotApplicable } from '../../grading/failure.ts'
import { expectAnswers, fromNode } from '../../grading/requests.ts'
import { filesOf, modeOf, type NodeView, stateOf } from '../../grading/snapshot.ts'
import { variantIn } from '../../grading/variant.ts'
import { LEFT_CHAINS } from './notes.ts'

const PODS_NOTE = 'agents-in-iptables-mode'
const UNUSABLE = /can't use the IPVS proxier|IPVS proxier will not be used|ipvs not supported/i

/** Records the kube-proxy Pods of iptables mode, to detect their replacement. */
export function keepKubeProxyPods({ snapshot, nodes, notes }: CheckContext): void {
  if (!nodes.every((node) => modeOf(node) === 'iptables')) return
  notes.keep(
    PODS_NOTE,
    kubeProxyPods(snapshot.items).flatMap(({ metadata }) => metadata.uid ?? []),
  )
}

/** The ConfigMap has mode ipvs, and every node's kube-proxy is a new Pod and reports mode ipvs. */
export function kubeProxiesRunIpvs({ snapshot, nodes, notes }: CheckContext): void {
  const configMap = snapshot.find('ConfigMap', 'kube-system', 'kube-proxy')
  expectThat(!configMap || configOf(snapshot).mode === 'ipvs', {
    inspect: "kubectl -n kube-system get configmap kube-proxy -o yaml | grep 'mode:'",
    expected: 'mode: ipvs in the ConfigMap',
    actual: `mode: ${configOf(snapshot).mode ?? '"" (which means iptables)'}`,
    next: 'make ipvs',
  })
  for (const node of nodes) expectIpvsMode(node)
  const before = new Set(notes.read(PODS_NOTE, z.array(z.string())))
  const old = kubeProxyPods(snapshot.items).find(({ metadata }) => before.has(metadata.uid ?? ''))
  expectThat(!old, {
    ...(old?.spec?.nodeName !== undefined && { node: old.spec.nodeName }),
    inspect: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide',
    expected: 'kube-proxy Pods that were started after the ConfigMap changed',
    actual: `${old?.metadata.name} is still the Pod of iptables mode`,
    next: RESTART,
  })
}

const RESTART = 'kubectl -n kube-system rollout restart daemonset kube-proxy'

function expectIpvsMode(node: NodeView): void {
  const log = filesOf(node).get('kube-proxy.log')
  const runs = modeOf(node)
  const inspect = `make kube-proxy-logs NODE=${node.name} | grep -i proxier`
  const complaint = log?.split('\n').findLast((line) => UNUSABLE.test(line))
  expectThat(runs === 'ipvs' || complaint === undefined, {
    node: node.name,
    inspect,
    expected: 'kube-proxy in ipvs mode',
    actual: `its log contains: ${complaint?.trim()}`,
    why: 'Without the ip_vs modules kube-proxy up to 1.25 silently stays in iptables mode, and a later one exits repeatedly.',
    hint: 'The kernel of this machine lacks IPVS: load ip_vs, ip_vs_rr, ip_vs_wrr and ip_vs_sh, or use CLUSTER=embedded, whose kernel has them.',
    next: 'make doctor',
  })
  expectNode(node).runMode('ipvs', {
    expected: 'ipvs as the answer of kube-proxy to /proxyMode',
    ...(runs !== undefined && {
      hint: 'The ConfigMap contains ipvs, but kube-proxy reads it only when it starts. Replace the Pods:',
      next: RESTART,
    }),
  })
  expectThat(log === undefined || log.trim() === '' || /Using ipvs Proxier/i.test(log), {
    node: node.name,
    inspect,
    expected: 'a line "Using ipvs Proxier" in the log of kube-proxy',
    actual: 'no such line',
  })
}

const chainCounts = z
  .record(z.string(), z.number())
  .refine((counts) => Object.values(counts).some(Boolean))

/**
 * The old chains were counted on every node before the flush; the counts are stored in the cluster.
 */
export const leftoversCounted = onceNoted(LEFT_CHAINS, chainCounts, ({ nodes, live }) => {
  expectNodes(nodes).runMode('ipvs', {
    expected: 'kube-proxy in ipvs mode, after the switch',
    next: 'make ipvs',
  })
  const counts = Object.fromEntries(nodes.map((node) => [node.name, staleServiceChains(node)]))
  const clean = nodes.find((node) => counts[node.name] === 0)
  if (clean && !live)
    throw new NotApplicable('the chains were flushed before this capture was taken')
  expectOnNode(clean?.name ?? '', 'iptables-save -t nat | grep -cE "^:KUBE-(SVC|SEP)"', !clean, {
    expected: 'chains KUBE-SVC-… and KUBE-SEP-… on every node, from before the switch',
    actual: 'none: they were flushed before the grader saw them',
    hint: 'Switch to iptables mode and back once more, and have them counted before they are flushed:',
    next: 'make iptables && make ipvs && make check-2 STEP=leftovers',
  })
  return counts
})

const staleServiceChains = (node: NodeView) =>
  [...(stateOf(node).iptables.get('nat')?.keys() ?? [])].filter(isServiceChain).length

/**
 * No chain, rule or jump of iptables mode is left, the filter table is that of IPVS mode, and the
 * Service web answers.
 */
export async function nothingLeft(context: CheckContext): Promise<void> {
  const { nodes, live, snapshot } = context
  expectNodes(nodes)
    .where(
      (_where, difference) => isAboutWholeTables(difference),
      'iptables-save | grep -E "KUBE-(SVC|SEP|EXTERNAL-SERVICES|NODEPORTS)"',
    )
    .equalPrediction('ipvs', 'only the chains and jumps that IPVS mode has itself')
  if (!live || !findService(snapshot, variantIn(snapshot).name)) return
  const service = webService(snapshot)
  for (const { name } of nodes)
    await expectAnswers(context, live, fromNode(name), service, 1, {
      expected: 'an answer of the Service web',
      hint: 'The virtual server or the return path is broken. The check of the whole lab shows which of the later steps fails:',
      next: 'make check-2',
    })
}

/** Stale or missing chains of nat, and all differences in the other tables. */
function isAboutWholeTables({ where, kind, expected, actual, interferes }: Difference): boolean {
  if (!('chain' in where) || interferes) return false
  if (where.table !== 'nat') return true
  const isChain = (kind === 'stale' ? actual : expected)?.startsWith(':') ?? false
  return isChain && (kind === 'stale' || kind === 'missing')
}

/**
 * The differences on a node that `make flush-nat` removes, for captures in which they were removed
 * afterwards.
 */
export function leftoverDifferences(node: NodeView): Difference[] {
  return evaluate(node, 'ipvs').differences.filter(isAboutWholeTables)
}
