import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'

const OUTPUTS = { ipset: 'ipset-save', ipvsadm: 'ipvsadm-save' }

/** ipset and ipvsadm run on every node, and what the three short commands stand for does too. */
export async function toolsWork({ nodes, live }: CheckContext): Promise<void> {
  expectNodes(nodes).run(OUTPUTS, 'ipset list -n; ipvsadm -Ln', { hint: 'make tools installs what is missing.' })
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
