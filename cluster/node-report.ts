// One exec that prints all node state that the checks read, and the parser of its output into
// files.

import { randomUUID } from 'node:crypto'
import { programText } from '../host/program-text.ts'
import { timeoutScale } from '../host/wait.ts'
import { nftProbe } from './kube-proxy/module-check.ts'
import { HTTP_GET, WITH_BACKEND } from './node-script.ts'

/** Number of conntrack entries to keep: enough for a lab, and bounded on a busy node. */
const CONNTRACK_LINES = 4000

/** Seconds for kube-proxy's answer on an idle machine. */
const PROXY_MODE_SECONDS = 2

/**
 * Shell: `proxy_mode` reads the mode from the HTTP server of the node's kube-proxy;
 * LAB_TIMEOUT_SCALE scales its deadline.
 */
export const proxyModeScript = (): string => `${HTTP_GET}
proxy_mode() {
  http_get 127.0.0.1 10249 /proxyMode ${Math.max(1, Math.ceil(PROXY_MODE_SECONDS * timeoutScale()))}
}`

/**
 * The modes that the kernel is known to support or lack, one per line. IPVS is not tried if its
 * module was not loaded before.
 */
const KERNEL_MODES = `probe_nftables() (
${nftProbe})
${programText('cluster/kernel-modes.sh')}`

/**
 * nf_tables as the node holds it: kube-proxy's own tables, and those of other programs but
 * iptables, a line of JSON each.
 */
const NFT = programText('cluster/nft-tables.sh')

/**
 * kube-proxy's rules of IPv6. The embedded kernel has legacy tables, whose names a file lists: it
 * is read without a process, because kube-proxy writes IPv4 rules only there, and most learners
 * load no table of ip6tables.
 */
const IP6_RULES = programText('cluster/ip6-rules.sh')

/**
 * File of a capture → the shell command whose output it contains. A command that fails leaves no
 * file.
 */
const ESSENTIAL: Record<string, string> = {
  'iptables-save': 'with_backend iptables-save -c',
  'ip6tables-save': 'ip6_rules',
  'ipset-save': 'ipset save',
  'ipvsadm-save': 'ipvsadm -Sn',
  'ip-addr.json': 'ip -j -d addr',
  'nft-ip.json': 'nft_table ip kube-proxy',
  'nft-ip6.json': 'nft_table ip6 kube-proxy',
  'nft-others.json': 'nft_others',
  proxyMode: 'proxy_mode',
}
const WITH_CONNECTIONS: Record<string, string> = {
  ...ESSENTIAL,
  'ipvsadm-list': '[ ! -e /proc/net/ip_vs ] || ipvsadm -Ln',
}
const WITH_ROUTES: Record<string, string> = {
  ...ESSENTIAL,
  'ip-route': 'ip route',
  'ipvsadm-stats': '[ ! -e /proc/net/ip_vs ] || ipvsadm -Ln --stats --exact',
}
const THOROUGH: Record<string, string> = {
  ...WITH_ROUTES,
  conntrack: `command -v conntrack >/dev/null && conntrack -L | head -n ${CONNTRACK_LINES}`,
  'kernel-modes': 'kernel_modes',
  versions:
    'uname -r; echo "kube-proxy writes to iptables $backend"; iptables --version; ipset --version 2>&1 | head -n 1; ipvsadm --version 2>&1 | head -n 1; conntrack --version',
}

/**
 * How much to read: `essential` for grading, `with connections` of virtual servers for the page,
 * `with routes` for the path of a packet, `thorough` for a capture.
 */
export type ReportDepth = 'essential' | 'with connections' | 'with routes' | 'thorough'

const SECTIONS: Record<ReportDepth, Record<string, string>> = {
  essential: ESSENTIAL,
  'with connections': WITH_CONNECTIONS,
  'with routes': WITH_ROUTES,
  thorough: THOROUGH,
}

export interface NodeReportRequest {
  /** A shell script (runOnNode). */
  script: string
  /**
   * Reads what the command printed: the files, and the exit code of each command that failed (127:
   * not installed).
   * @throws Error when its last line is missing: the node, or the connection to it, was lost in the
   * meantime
   */
  read(output: string): { files: Map<string, string>; failures: Map<string, number> }
}

/**
 * The command to run on a node. Its section marks contain a random UUID, so that no rule comment
 * can forge one.
 */
export function nodeReportRequest(depth: ReportDepth): NodeReportRequest {
  const mark = `==${randomUUID()}`
  const sections = Object.entries(SECTIONS[depth])
  const commands = sections.map(
    ([file, command]) =>
      `echo '${mark} ${file}'\n{ ${command}; } 2>/dev/null\nprintf '\\n${mark}. %s\\n' $?`,
  )
  return {
    script: [
      WITH_BACKEND,
      IP6_RULES,
      NFT,
      ...('kernel-modes' in SECTIONS[depth] ? [KERNEL_MODES] : []),
      proxyModeScript(),
      ...commands,
      `echo '${mark}! end'`,
    ].join('\n'),
    read: (output) => readReport(output, mark),
  }
}

function readReport(output: string, mark: string) {
  if (!output.endsWith(`${mark}! end\n`)) throw new Error('its output was cut off')
  const files = new Map<string, string>()
  const failures = new Map<string, number>()
  for (const section of output.split(`${mark} `).slice(1)) {
    const bodyStart = section.indexOf('\n') + 1
    const bodyEnd = section.lastIndexOf(`\n${mark}. `)
    if (bodyStart === 0 || bodyEnd === -1) continue
    const file = section.slice(0, bodyStart - 1)
    const exitCode = Number.parseInt(section.slice(bodyEnd + mark.length + 3), 10)
    if (exitCode === 0) files.set(file, section.slice(bodyStart, Math.max(bodyStart, bodyEnd)))
    else failures.set(file, exitCode)
  }
  return { files, failures }
}
