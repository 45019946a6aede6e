import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail } from '../../grading/failure.ts'
import type { NodeView } from '../../grading/snapshot.ts'

const OUTPUTS = { ipset: 'ipset-save', ipvsadm: 'ipvsadm-save' }

/** ipset and ipvsadm run on every node, and what the three short commands stand for does too. */
export async function toolsWork({ nodes, live }: CheckContext): Promise<void> {
  for (const node of nodes) requireTools(node)
  const [node] = nodes.slice(-1)
  if (!live || !node) return
  const script = 'iptables -t nat -nvL KUBE-SERVICES && ipvsadm -Ln && ipset list KUBE-CLUSTER-IP'
  const { exitCode, stderr } = await live.onNode(node.name, `{ ${script}; } >/dev/null`)
  if (exitCode !== 0)
    fail({
      node: node.name,
      look: onNode(node.name, script),
      expected: 'that ipt, ipv and ips work on the node',
      actual: stderr.trim().split('\n').at(-1) ?? `exit code ${exitCode}`,
    })
}

/** Fails when a tool that this lab reads with is not installed on a node. */
function requireTools(node: NodeView): void {
  const missing = Object.entries(OUTPUTS).filter(([, file]) => node.text(file) === undefined)
  if (missing.length === 0) return
  const names = missing.map(([tool]) => tool).join(' and ')
  fail({
    node: node.name,
    look: onNode(node.name, 'ipset list -n; ipvsadm -Ln'),
    expected: 'ipset and ipvsadm running on every node',
    actual: `${names} did not run`,
    hint: 'make tools installs what is missing.',
  })
}
