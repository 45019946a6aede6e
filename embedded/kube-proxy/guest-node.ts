import { parseIpAddr } from '../../dataplane/ip-addr.ts'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import type { GuestProcess, Machine, Placement, RunResult } from '../machine/machine.ts'

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

/** The command that kube-proxy itself gives its rules to. */
export const restoreCommand = 'iptables-restore -w 5 --noflush'
