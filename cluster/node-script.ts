import { shellWord } from '../host/shell-word.ts'
import { timeoutScale } from '../host/wait.ts'
import type { Cluster, ExecResult } from './driver.ts'
import { ownIptables } from './iptables-backend.ts'

/**
 * Runs a shell script of ours on a node: one that reads no input and leaves nothing in the background. `args` are its $1, $2 ….
 * Rejects when the node can't be reached or `timeoutMs` (times LAB_TIMEOUT_SCALE) have passed.
 */
export function runOnNode(
  cluster: Cluster,
  node: string,
  text: string,
  { args = [], timeoutMs: usualMs = 60_000 }: { args?: readonly string[]; timeoutMs?: number } = {},
): Promise<ExecResult> {
  const timeoutMs = usualMs * timeoutScale()
  const head = [
    ...(cluster.ownIptables ? [ownIptables] : []),
    ...(args.length > 0 ? [`set -- ${args.map(shellWord).join(' ')}`] : []),
  ]
  const script = [...head, text].join('\n')
  // An argument may be 128 KiB long (MAX_ARG_STRLEN); what is longer goes in by standard input.
  if (cluster.script) return cluster.script(node, script, timeoutMs)
  if (script.length < 100_000) return cluster.exec(node, ['sh', '-c', script], { timeoutMs })
  return cluster.exec(node, ['sh'], { stdin: script, timeoutMs })
}
