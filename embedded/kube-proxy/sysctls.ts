import { type GuestNode, NFTABLES_MARK } from './guest-node.ts'
import type { Logger } from './klog.ts'

export type Sysctl = readonly [name: string, value: number]

/** Counters that kube-proxy's rules name since 1.31 (pkg/proxy/metrics). */
const counters = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']
const makeCounters = counters
  .map((name) => `{ nfacct get ${name} || nfacct add ${name}; } >/dev/null 2>&1`)
  .join(' && ')

/**
 * Sets sysctls of the node and makes kube-proxy's nfacct counters, all in one go, and logs what changed as kube-proxy's
 * EnsureSysctl does. Tables that nftables mode left go, unless this is that mode. A sysctl that this kernel does not have is passed over.
 * @returns whether rules may name the counters: the kernel and the `nfacct` program must know them
 */
export async function prepareNode(
  node: GuestNode,
  log: Logger,
  sysctls: readonly Sysctl[],
  keepTables: boolean,
): Promise<boolean> {
  const paths = sysctls.map(([name]) => `/proc/sys/${name}`)
  const writes = sysctls.map(([name, value]) => `[ ! -w /proc/sys/${name} ] || echo ${value} >/proc/sys/${name}`)
  // The shell reads by itself: another process would cost more than all of the files.
  const script = [
    ...paths.map((path) => `[ ! -r ${path} ] || { read -r value <${path}; echo "${path}:$value"; }`),
    ...writes,
    ...(keepTables
      ? []
      : [
          `[ ! -e ${NFTABLES_MARK} ] || { nft 'delete table ip kube-proxy; delete table ip6 kube-proxy'; rm ${NFTABLES_MARK}; }`,
        ]),
    `command -v nfacct >/dev/null && modprobe -qab xt_nfacct && ${makeCounters} && echo counters:yes`,
  ]
  const { stdout } = await node.run(`${script.join('\n')}\n`)
  const answers = new Map(stdout.split('\n').map((line) => line.split(':') as [string, string | undefined]))
  for (const [name, after] of sysctls) {
    const before = answers.get(`/proc/sys/${name}`)
    if (before !== undefined && Number(before) !== after)
      log('I', 'utils.go:168', 'Changed sysctl', { name, before: Number(before), after })
  }
  return answers.get('counters') === 'yes'
}
