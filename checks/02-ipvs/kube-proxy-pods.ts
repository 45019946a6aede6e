import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { fail } from '../../grading/failure.ts'
import type { NodeView } from '../../grading/snapshot.ts'

const AGENTS_NOTE = 'agents-in-iptables-mode'
const UNUSABLE = /can't use the IPVS proxier|IPVS proxier will not be used|ipvs not supported/i

const isUidList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((uid) => typeof uid === 'string')

/** Remembers which kube-proxy Pods ran in iptables mode, so that later ones are known to be new. */
export function keepAgents({ snapshot, nodes, notes }: CheckContext): void {
  if (!nodes.every((node) => node.mode === 'iptables')) return
  notes.keep(
    AGENTS_NOTE,
    kubeProxyPods(snapshot.items).flatMap(({ metadata }) => metadata.uid ?? []),
  )
}

/** The ConfigMap asks for IPVS, every node's kube-proxy is a new one and says that it runs IPVS. */
export function agentsRunIpvs({ snapshot, nodes, notes }: CheckContext): void {
  const asked = snapshot.find('ConfigMap', 'kube-system', 'kube-proxy')
  if (asked && configOf(snapshot).mode !== 'ipvs')
    fail({
      look: "kubectl -n kube-system get configmap kube-proxy -o yaml | grep 'mode:'",
      expected: 'mode: ipvs in the ConfigMap',
      actual: `mode: ${configOf(snapshot).mode ?? '"" (which means iptables)'}`,
      hint: 'make ipvs patches the ConfigMap and restarts every agent.',
    })
  for (const node of nodes) mustRunIpvs(node)
  const before = new Set(notes.read(AGENTS_NOTE, isUidList))
  const old = kubeProxyPods(snapshot.items).find(({ metadata }) => before.has(metadata.uid ?? ''))
  if (old)
    fail({
      ...(old.spec?.nodeName === undefined ? {} : { node: old.spec.nodeName }),
      look: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide',
      expected: 'agents that were started after the ConfigMap changed',
      actual: `${old.metadata.name} is still the agent of iptables mode`,
    })
}

function mustRunIpvs(node: NodeView): void {
  const log = node.text('kube-proxy.log')
  const look = `make kube-proxy-logs NODE=${node.name} | grep -i proxier`
  const complaint = log?.split('\n').findLast((line) => UNUSABLE.test(line))
  if (node.mode !== 'ipvs' && complaint)
    fail({
      node: node.name,
      look,
      expected: 'kube-proxy in ipvs mode',
      actual: `its log says: ${complaint.trim()}`,
      why: 'Without the ip_vs modules kube-proxy up to 1.25 silently stays with iptables, and a later one exits again and again.',
      hint: 'The kernel of this machine lacks IPVS: load ip_vs, ip_vs_rr, ip_vs_wrr and ip_vs_sh, or use CLUSTER=embedded, whose kernel has them.',
    })
  if (node.mode !== 'ipvs')
    fail({
      node: node.name,
      look: `make exec NODE=${node.name} CMD='curl -s localhost:10249/proxyMode'`,
      expected: 'ipvs as the answer of kube-proxy to /proxyMode',
      actual: node.mode === undefined ? 'no kube-proxy answers on this node' : node.mode,
      ...(node.mode === undefined
        ? {
            hint: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy shows whether it runs; make ipvs FORCE=1 restarts all.',
          }
        : {}),
    })
  if (node.text('proxyMode') === undefined && log === undefined) return
  if (log !== undefined && log.trim() !== '' && !/Using ipvs Proxier/i.test(log))
    fail({
      node: node.name,
      look,
      expected: 'a line "Using ipvs Proxier" in the log of kube-proxy',
      actual: 'no such line',
    })
}
