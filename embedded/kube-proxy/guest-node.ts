import { type Connection, parseConntrack } from '../../dataplane/conntrack.ts'
import { parseIpAddr } from '../../dataplane/ip-addr.ts'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import type { GuestProcess, Machine, Placement, RunResult } from '../machine/machine.ts'
import type { Logger } from './settings.ts'

/** One command of a script, with what it reads on its standard input. A step without input is left out. */
export interface Step {
  command: string
  input: string
  /** When this one fails, those behind it are not run. */
  needed?: boolean
  /** What it writes on standard error is a failure, though it ends well (`ipvsadm -R`). */
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

/** A node as its kube-proxy works on it: everything goes through one shell per sync, as a process in the guest costs 20 ms. */
export class GuestNode {
  private readonly machine: Machine
  private readonly placement: Placement

  constructor(machine: Machine, placement: Placement) {
    this.machine = machine
    this.placement = placement
  }

  /** Runs a shell script. Rejects when the machine is gone. */
  run(script: string): Promise<RunResult> {
    return this.machine.script(script, this.placement, { timeoutMs: commandDeadlineMs })
  }

  /** Starts a program that goes on beside the scripts. */
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
      // Marks around its words, for the shell itself could only look at them by a fork.
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

  /** All that a full sync of IPVS mode needs to know. */
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

  /** What a full sync of iptables mode needs to know. */
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
   * Asks again when the answer can't be read: iptables-save (legacy) prints a table twice when another one is registered
   * while it goes through /proc/net/ip_tables_names.
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

/** A file on a node whose kube-proxy ran in nftables mode, so that the next one need not start nft to find out. */
export const NFTABLES_MARK = '/run/kube-proxy-nftables'

const deleteTables = ['ip', 'ip6']
  .map((family) => `add table ${family} kube-proxy; delete table ${family} kube-proxy`)
  .join('; ')

/** The command that kube-proxy itself gives its rules to. */
export const restoreCommand = 'iptables-restore -w 5 --noflush'

export type Sysctl = readonly [name: string, value: number]

/** Counters that kube-proxy's rules name since 1.31 (pkg/proxy/metrics). */
const counters = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']
const makeCounters = counters
  .map((name) => `{ nfacct get ${name} || nfacct add ${name}; } >/dev/null 2>&1`)
  .join(' && ')

/**
 * Sets sysctls of the node and makes kube-proxy's nfacct counters, all in one go, and logs what changed as kube-proxy's
 * EnsureSysctl does. Tables of nftables mode are deleted, unless this is that mode. A sysctl that this kernel lacks is skipped.
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

/** Machine → node → what was cleaned up there. */
const cleanups = new WeakMap<Machine, Map<string, ConntrackCleanup>>()

const same = (one: ReadonlySet<string> | undefined, other: ReadonlySet<string>) =>
  one !== undefined && one.size === other.size && [...other].every((address) => one.has(address))

/** No program is started where the kernel follows no connection at all. */
const listUdp = `read -r flows </proc/sys/net/netfilter/nf_conntrack_count && [ "$flows" = 0 ] && exit
conntrack -L -p udp 2>/dev/null
`

/** Ends UDP flows that conntrack would go on sending to an endpoint that is gone; TCP ends by itself (RST, FIN). */
export class ConntrackCleanup {
  private readonly node: GuestNode
  private known: Backends = new Map()

  private constructor(node: GuestNode) {
    this.node = node
  }

  /** That of a node: while its Services stay as they are, another kube-proxy goes on where the one before has ended. */
  static on(machine: Machine, name: string, node: GuestNode): ConntrackCleanup {
    const ofMachine = cleanups.get(machine) ?? new Map<string, ConntrackCleanup>()
    const cleanup = ofMachine.get(name) ?? new ConntrackCleanup(node)
    cleanups.set(machine, ofMachine.set(name, cleanup))
    return cleanup
  }

  /** Called after the rules of a sync stand; does nothing while no UDP Service changed. */
  async after(backends: Backends, localAddresses: ReadonlySet<string>): Promise<void> {
    const changed = [...backends].some(([key, now]) => !same(this.known.get(key), now))
    const gone = [...this.known.keys()].filter((key) => !backends.has(key))
    const watched = new Map([...backends, ...gone.map((key): [string, ReadonlySet<string>] => [key, new Set()])])
    if (!changed && gone.length === 0) return
    const { stdout } = await this.node.run(listUdp)
    const stale = parseConntrack(stdout).filter((flow) => isStale(flow, watched, localAddresses))
    if (stale.length > 0) await this.node.run(stale.map(deletion).join(''))
    // Only now: what could not be cleaned is tried again, by the next kube-proxy if need be.
    this.known = backends
  }
}

/** A flow to a Service address, or to a node port, that is answered by something else than an endpoint of that Service. */
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

/** Which of these real servers still have connections. */
export async function busyRealServers(node: GuestNode, of: ReadonlySet<string>): Promise<Set<string>> {
  const { stdout } = await node.run('ipvsadm -Ln\n')
  return new Set([...parseBusyRealServers(stdout)].filter((key) => of.has(key)))
}
