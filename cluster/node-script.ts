import { programText } from '../host/program-text.ts'
import { type ExecResult, shellWord } from '../host/shell-word.ts'
import { scaledMs } from '../host/wait.ts'
import { consent } from './consent.ts'
import type { Cluster, NodeAccess } from './driver.ts'

/** Shell: the tools are in sbin, which is not on every node's default PATH. */
const PATH =
  'case :$PATH: in *:/usr/sbin:*) ;; *) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin ;; esac'

/** Shell: kube-proxy uses the node's own iptables, so its process is not searched for. */
const ownIptables = 'own_iptables=yes'

/** `script` of a driver that has nothing cheaper than `exec`. */
export function execScript(
  cluster: Pick<Cluster, 'exec'>,
  node: string,
  script: string,
  timeoutMs: number,
): Promise<ExecResult> {
  // An argument may be 128 KiB long (MAX_ARG_STRLEN); a longer script is sent on standard input.
  if (script.length < 100_000) return cluster.exec(node, ['sh', '-c', script], { timeoutMs })
  return cluster.exec(node, ['sh'], { stdin: script, timeoutMs })
}

interface NodeScriptOptions {
  args?: readonly string[]
  /** Multiplied by LAB_TIMEOUT_SCALE. */
  timeoutMs?: number
  /** The script changes nothing on the node, so no consent is needed. */
  readOnly?: boolean
  /**
   * The script does what a person asked for: the embedded cluster notes it on the Node, as it does
   * a command of `make exec`.
   */
  noted?: boolean
  /** The caller no longer waits once it aborts, where the driver has `script`. */
  signal?: AbortSignal
}

/**
 * Runs a shell script of ours on a node: one that reads no input and leaves nothing in the
 * background. Unless it is `readOnly`, it needs consent on a cluster that is not ours. Rejects with
 * ConsentError, and when the node can't be reached or `timeoutMs` have passed.
 */
export async function runOnNode(
  cluster: NodeAccess,
  node: string,
  text: string,
  {
    args = [],
    timeoutMs: usualMs = 60_000,
    readOnly = false,
    noted = false,
    signal,
  }: NodeScriptOptions = {},
): Promise<ExecResult> {
  if (!readOnly) await consent(cluster, `change node "${node}" by a script that runs there as root`)
  const timeoutMs = scaledMs(usualMs)
  const head = [
    PATH,
    ...(cluster.capabilities.ownIptables ? [ownIptables] : []),
    ...(args.length > 0 ? [`set -- ${args.map(shellWord).join(' ')}`] : []),
  ]
  const script = [...head, text].join('\n')
  return noted
    ? execScript(cluster, node, script, timeoutMs)
    : cluster.script(node, script, timeoutMs, signal)
}

/**
 * perl uses its built-in socket functions and loads no libraries as curl does. The embedded cluster
 * has a program of its own instead (embedded/machine/http-get.c), because there perl takes a third
 * of the time of reading all rules. A broken firewall can block even this connection, so the whole
 * request has a time limit. The connection ends with a reset (SO_LINGER is 13), so that it does not
 * stay in TIME_WAIT, visible in lists of connections.
 */
const PERL = programText('cluster/http-get.pl')

/**
 * Shell: `http_get ADDRESS PORT PATH SECONDS` sends an HTTP GET to an IPv4 address and prints the
 * response body. The exit code is 0 when the status is below 400, else the one that curl would
 * return, with a line on standard error. curl is used only if there is neither.
 */
export const HTTP_GET = `http_get_program=${shellWord(PERL)}
${programText('cluster/http-get.sh')}`

/**
 * Shell: `with_backend iptables-save|ip6tables-save|iptables-restore|ip6tables-restore [OPTION
 * …]` runs the program of the back end that kube-proxy writes to. `backend` is `legacy` or `nft`,
 * the two kernel interfaces of iptables programs (rules written through one are not visible through
 * the other), or empty for the node's own: that of the iptables in the container of a kube-proxy
 * that runs as a process of this node, else the first that contains KUBE-SERVICES, else the first
 * with any chain of Kubernetes. Builtins do the search, because a fork is slow on the embedded
 * kernel.
 */
export const WITH_BACKEND = programText('cluster/with-backend.sh')

const backendsScript = WITH_BACKEND + programText('cluster/backends.sh')

/**
 * A clause for messages: the iptables back end with which kube-proxy's rules are read on a node,
 * and if the node's own is another.
 */
export async function describeBackend(cluster: NodeAccess, node: string): Promise<string> {
  const { stdout } = await runOnNode(cluster, node, backendsScript, {
    timeoutMs: 30_000,
    readOnly: true,
  })
  const [used, own] = stdout.trim().split(' ')
  const sentence = `kube-proxy's rules are read through iptables-${used || 'save (one back end only)'}`
  return own && own !== used ? `${sentence}; the node's own iptables is ${own}` : sentence
}
