import { type Connection, parseConntrack } from '../../dataplane/conntrack.ts'
import { parseIpAddr } from '../../dataplane/ip-addr.ts'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import type { GuestProcess, Machine, Placement, RunResult } from '../machine/machine.ts'
import type { Logger } from './settings.ts'

/** One command of a script, with its standard input. A step without input is skipped. */
export interface Step {
  command: string
  input: string
  /** If this step fails, the following ones are not run. */
  needed?: boolean
  /** Output on standard error counts as a failure even if the exit code is 0 (`ipvsadm -R`). */
  complains?: boolean
}

/** The outcome of a script of steps. */
export interface StepsResult {
  ok: boolean
  /** The lines that the programs wrote on standard error. */
  errors: string[]
}

const mark = '==END-OF-SECTION=='
const commandDeadlineMs = 120_000

/**
 * Access of kube-proxy to its node: all commands of a sync run in one shell, because starting a process in the guest takes 20
 * ms.
 */
export class GuestNode {
  private readonly machine: Machine
  private readonly placement: Placement

  constructor(machine: Machine, placement: Placement) {
    this.machine = machine
    this.placement = placement
  }

  /** Runs a shell script. Rejects if the machine has ended. */
  run(script: string): Promise<RunResult> {
    return this.machine.script(script, this.placement, { timeoutMs: commandDeadlineMs })
  }

  /** Starts a program that runs in parallel to the scripts. */
  spawn(command: readonly string[]): Promise<GuestProcess> {
    return this.machine.spawn(command, this.placement)
  }

  /** Runs the steps that have input, one after the other, in one shell. */
  async apply(steps: readonly Step[]): Promise<StepsResult> {
    const due = steps.filter(({ input }) => input !== '')
    if (due.length === 0) return { ok: true, errors: [] }
    const lines = ['failed=0']
    const ends: string[] = []
    for (const { command, input, needed, complains } of due) {
      const run = `${command} <<'${mark}'\n${input}${mark}`
      // Marks enclose the error output, because the shell could examine it only with a fork.
      const said = `echo '${mark}' >&2`
      lines.push(...(complains ? [said, run, said] : [run, '[ $? = 0 ] || failed=1']))
      if (needed) {
        lines.push('if [ $failed = 0 ]; then :')
        ends.push('fi')
      }
    }
    lines.push(...ends, '[ $failed = 0 ]', '')
    const { exitCode, stderr } = await this.run(lines.join('\n'))
    const parts = stderr.split(`${mark}\n`)
    const complained = parts.some((words, index) => index % 2 === 1 && words !== '')
    const errors = parts.join('').split('\n')
    return { ok: exitCode === 0 && !complained, errors: errors.filter((line) => line !== '') }
  }

  /** Reads the state for a full sync of IPVS mode. */
  read(): Promise<NodeState> {
    return this.ask(
      ['iptables-save', 'ipset save', 'ipvsadm -Sn', 'ip -j -d addr'],
      ([rules, sets, servers, links]) => ({
        iptables: parseIptablesSave(rules ?? ''),
        ipsets: parseIpsetSave(sets ?? ''),
        virtualServers: parseIpvsadmSave(servers ?? ''),
        links: parseIpAddr(links || '[]'),
      }),
    )
  }

  /** Reads the state for a full sync of iptables mode. */
  readRules(): Promise<Pick<NodeState, 'iptables' | 'links'>> {
    return this.ask(['iptables-save', 'ip -j -d addr'], ([rules, links]) => ({
      iptables: parseIptablesSave(rules ?? ''),
      links: parseIpAddr(links || '[]'),
    }))
  }

  /** The JSON of kube-proxy's own tables of nf_tables, and the links. */
  readTables(): Promise<{ tables: string[]; links: NodeState['links'] }> {
    const list = (family: string) => `nft -j list table ${family} kube-proxy 2>/dev/null || echo '{"nftables":[]}'`
    return this.ask([list('ip'), list('ip6'), 'ip -j -d addr'], ([ip = '', ip6 = '', links]) => ({
      tables: [ip, ip6],
      links: parseIpAddr(links || '[]'),
    }))
  }

  /**
   * Repeats the command if its output is invalid: iptables-save (legacy) prints a table twice if another one is registered
   * while it reads /proc/net/ip_tables_names.
   */
  private async ask<T>(commands: readonly string[], read: (outputs: string[]) => T, patience = 3): Promise<T> {
    const script = [...commands.map((command) => `${command}; echo '${mark}'`), '']
    const { stdout } = await this.run(script.join('\n'))
    try {
      return read(stdout.split(`${mark}\n`))
    } catch (error) {
      if (!(error instanceof ParseError) || patience === 0) throw error
      return this.ask(commands, read, patience - 1)
    }
  }
}

/** A file on a node whose kube-proxy ran in nftables mode, so that the next one does not have to start nft to detect it. */
export const NFTABLES_MARK = '/run/kube-proxy-nftables'

const deleteTables = ['ip', 'ip6']
  .map((family) => `add table ${family} kube-proxy; delete table ${family} kube-proxy`)
  .join('; ')

/** The command with which kube-proxy loads its rules. */
export const restoreCommand = 'iptables-restore -w 5 --noflush'

export type Sysctl = readonly [name: string, value: number]

/** Counters that kube-proxy's rules name since 1.31 (pkg/proxy/metrics). */
const counters = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']
const makeCounters = counters
  .map((name) => `{ nfacct get ${name} || nfacct add ${name}; } >/dev/null 2>&1`)
  .join(' && ')

/**
 * Sets sysctls of the node and creates kube-proxy's nfacct counters in one script, and logs changes as kube-proxy's
 * EnsureSysctl does. Tables of nftables mode are deleted, unless this is that mode. A sysctl that this kernel lacks is skipped.
 * @returns whether rules may use the counters: the kernel and the `nfacct` program must support them
 */
export async function prepareNode(
  node: GuestNode,
  log: Logger,
  sysctls: readonly Sysctl[],
  keepTables: boolean,
): Promise<boolean> {
  const paths = sysctls.map(([name]) => `/proc/sys/${name}`)
  const writes = sysctls.map(([name, value]) => `[ ! -w /proc/sys/${name} ] || echo ${value} >/proc/sys/${name}`)
  // Uses the shell's `read`: starting another process would take longer than reading all files.
  const script = [
    ...paths.map((path) => `[ ! -r ${path} ] || { read -r value <${path}; echo "${path}:$value"; }`),
    ...writes,
    ...(keepTables
      ? []
      : [
          // One that is not there would keep the other: all of it is one transaction.
          `[ ! -e ${NFTABLES_MARK} ] || { nft '${deleteTables}'; rm ${NFTABLES_MARK}; }`,
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

type Backends = ReadonlyMap<string, ReadonlySet<string>>

/** The conntrack cleanups by machine and node. */
const cleanups = new WeakMap<Machine, Map<string, ConntrackCleanup>>()

const same = (one: ReadonlySet<string> | undefined, other: ReadonlySet<string>) =>
  one !== undefined && one.size === other.size && [...other].every((address) => one.has(address))

/** No program is started if the kernel tracks no connection. */
const listUdp = `read -r flows </proc/sys/net/netfilter/nf_conntrack_count && [ "$flows" = 0 ] && exit
conntrack -L -p udp 2>/dev/null
`

/** Deletes UDP flows that conntrack would keep sending to a deleted endpoint; TCP connections end by themselves (RST, FIN). */
export class ConntrackCleanup {
  private readonly node: GuestNode
  private known: Backends = new Map()

  private constructor(node: GuestNode) {
    this.node = node
  }

  /** The cleanup of a node, which the next kube-proxy on the node continues. */
  static on(machine: Machine, name: string, node: GuestNode): ConntrackCleanup {
    const ofMachine = cleanups.get(machine) ?? new Map<string, ConntrackCleanup>()
    const cleanup = ofMachine.get(name) ?? new ConntrackCleanup(node)
    cleanups.set(machine, ofMachine.set(name, cleanup))
    return cleanup
  }

  /** Called after the rules of a sync are written; does nothing if no UDP Service has changed. */
  async after(backends: Backends, localAddresses: ReadonlySet<string>): Promise<void> {
    const changed = [...backends].some(([key, now]) => !same(this.known.get(key), now))
    const gone = [...this.known.keys()].filter((key) => !backends.has(key))
    const watched = new Map([...backends, ...gone.map((key): [string, ReadonlySet<string>] => [key, new Set()])])
    if (!changed && gone.length === 0) return
    const { stdout } = await this.node.run(listUdp)
    const stale = parseConntrack(stdout).filter((flow) => isStale(flow, watched, localAddresses))
    if (stale.length > 0) await this.node.run(stale.map(deletion).join(''))
    // Recorded only after success, so that a failed cleanup is retried, if necessary by the next kube-proxy.
    this.known = backends
  }
}

/** Whether a flow to a Service address or node port leads to an address that is not an endpoint of that Service. */
export function isStale(
  { original, reply }: Connection,
  backends: Backends,
  localAddresses: ReadonlySet<string>,
): boolean {
  const { destination, destinationPort } = original
  const behind =
    backends.get(`${destination}:${destinationPort}`) ??
    (localAddresses.has(destination) ? backends.get(`:${destinationPort}`) : undefined)
  return behind !== undefined && !behind.has(reply.source)
}

const deletion = ({ original }: Connection) =>
  `conntrack -D -p udp -s ${original.source} -d ${original.destination} --sport ${original.sourcePort} --dport ${original.destinationPort} >/dev/null 2>&1\n`

/**
 * Reads `ipvsadm -Ln` for the real servers that have connections, open or closing; keys as realServerKey gives them
 * (`TCP 10.96.0.1:80 10.244.1.2:80`).
 */
export function parseBusyRealServers(text: string): Set<string> {
  const busy = new Set<string>()
  let server = ''
  for (const line of text.split('\n')) {
    const virtual = /^(TCP|UDP|SCTP)\s+(\S+)\s/.exec(line)
    if (virtual) server = `${virtual[1]} ${virtual[2]}`
    const real = /^\s+->\s+(\S+:\d+)\s+\S+\s+\d+\s+(\d+)\s+(\d+)\s*$/.exec(line)
    if (real && Number(real[2]) + Number(real[3]) > 0) busy.add(`${server} ${real[1]}`)
  }
  return busy
}

/** The real servers among these that still have connections. */
export async function busyRealServers(node: GuestNode, of: ReadonlySet<string>): Promise<Set<string>> {
  const { stdout } = await node.run('ipvsadm -Ln\n')
  return new Set([...parseBusyRealServers(stdout)].filter((key) => of.has(key)))
}
