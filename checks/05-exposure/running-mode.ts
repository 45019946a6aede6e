import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'

/** kube-proxy runs in that mode on every node. A capture of another mode shows another moment, so it proves nothing. */
export function mustRun({ nodes, live }: CheckContext, mode: KubeProxyMode, hint: string): void {
  const other = nodes.find((node) => node.mode !== mode)
  if (!other) return
  if (!live) throw new NotApplicable(`kube-proxy was not in ${mode} mode when this capture was taken`)
  fail({
    node: other.name,
    look: onNode(other.name, 'curl -s localhost:10249/proxyMode'),
    expected: `kube-proxy in ${mode} mode on every node`,
    actual: other.mode ?? 'no kube-proxy answers on this node',
    hint,
  })
}
