import { type ExecResult, shellWord } from '../host/shell-word.ts'
import { timeoutScale } from '../host/wait.ts'
import { consent } from './consent.ts'
import type { Cluster } from './driver.ts'

/** Shell: kube-proxy uses the node's own iptables, so that nothing need look for its process (iptables-backend.ts). */
const ownIptables = 'own_iptables=yes'

export interface NodeScriptOptions {
  /** Its $1, $2 …. */
  args?: readonly string[]
  /** Stretched by LAB_TIMEOUT_SCALE. */
  timeoutMs?: number
  /** It changes nothing on the node, so nobody has to agree to it. */
  readOnly?: boolean
}

/**
 * Runs a shell script of ours on a node: one that reads no input and leaves nothing in the background. Unless it is `readOnly`,
 * somebody else's cluster is asked for consent first. Rejects with ConsentError, and when the node can't be reached or
 * `timeoutMs` have passed.
 */
export async function runOnNode(
  cluster: Cluster,
  node: string,
  text: string,
  { args = [], timeoutMs: usualMs = 60_000, readOnly = false }: NodeScriptOptions = {},
): Promise<ExecResult> {
  if (!readOnly) await consent(cluster, `change node "${node}" by a script that runs there as root`)
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
