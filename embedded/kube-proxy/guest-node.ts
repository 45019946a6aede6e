import { parseIpAddr } from '../../dataplane/ip-addr.ts'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import { parseNftList } from '../../dataplane/nft-list.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { ParseError } from '../../dataplane/program-output.ts'
import type { ExecResult } from '../../host/shell-word.ts'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'

/** One command of a script, with its standard input. A step without input is skipped. */
export interface NodeCommand {
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
const readAttempts = 4

/** kube-proxy's own table of each family, a line of JSON each. */
const listTables = ['ip', 'ip6']
  .map((family) => `nft -j list table ${family} kube-proxy 2>/dev/null || echo '{"nftables":[]}'`)
  .join('; ')

/** The commands that print a node's state. */
const readers = {
  iptables: { command: 'iptables-save', parse: parseIptablesSave },
  ipsets: { command: 'ipset save', parse: parseIpsetSave },
  virtualServers: { command: 'ipvsadm -Sn', parse: parseIpvsadmSave },
  links: { command: 'ip -j -d addr', parse: (text: string) => parseIpAddr(text || '[]') },
  nftables: {
    command: listTables,
    parse: (text: string) => text.trim().split('\n').flatMap(parseNftList),
  },
}
type ReadablePart = keyof typeof readers

const commandDeadlineMs = 120_000

/**
 * Access of kube-proxy to its node. All commands of a sync run in one shell: starting a process in
 * the guest takes 20 ms.
 */
export class GuestNode {
  readonly #machine: Machine
  readonly #placement: Placement

  constructor(machine: Machine, placement: Placement) {
    this.#machine = machine
    this.#placement = placement
  }

  /** Runs a shell script. Rejects if the machine has ended. */
  run(script: string): Promise<ExecResult> {
    return this.#machine.script(script, this.#placement, { timeoutMs: commandDeadlineMs })
  }

  /**
   * Replaces a file of the node, and creates its folder: without a shell, which takes twenty times
   * as long.
   */
  write(path: string, content: string): Promise<void> {
    const { pid } = this.#placement
    const root = pid === undefined ? '' : `/proc/${pid}/root`
    return this.#machine.write([{ path: `${root}${path}`, content }])
  }

  /** Starts a program that runs in parallel to the scripts. */
  spawn(command: readonly string[]): Promise<GuestProcess> {
    return this.#machine.spawn(command, this.#placement)
  }

  /** Runs the steps that have input, one after the other, in one shell. */
  async apply(steps: readonly NodeCommand[]): Promise<StepsResult> {
    const due = steps.filter(({ input }) => input !== '')
    if (due.length === 0) return { ok: true, errors: [] }
    const lines = ['failed=0 complained=0']
    for (const { command, input, needed, complains } of due) {
      const fed = `<<'${mark}'\n${input}${mark}\n`
      if (complains)
        lines.push(
          `said=$(${command} 2>&1 ${fed})`,
          '[ -z "$said" ] || { echo "$said" >&2; complained=1; }',
        )
      else lines.push(`${command} ${fed}[ $? = 0 ] || failed=1`)
      if (needed) lines.push('[ $failed = 0 ] || exit 1')
    }
    const { exitCode, stderr } = await this.run(
      [...lines, 'exit $((failed + complained))', ''].join('\n'),
    )
    return { ok: exitCode === 0, errors: stderr.split('\n').filter((line) => line !== '') }
  }

  /**
   * Reads parts of the node's state, again if one is invalid: iptables-save (legacy) prints a table
   * twice if another one is registered.
   */
  async read(...parts: readonly ReadablePart[]): Promise<NodeState> {
    const script = parts.map((part) => `${readers[part].command}; echo '${mark}'\n`).join('')
    for (let attempt = 1; ; attempt++) {
      const { stdout } = await this.run(script)
      const outputs = stdout.split(`${mark}\n`)
      const state: NodeState = {
        iptables: new Map(),
        ipsets: new Map(),
        virtualServers: [],
        links: [],
      }
      try {
        for (const [index, part] of parts.entries())
          Object.assign(state, { [part]: readers[part].parse(outputs[index] ?? '') })
        return state
      } catch (error) {
        if (!(error instanceof ParseError) || attempt === readAttempts) throw error
      }
    }
  }
}

/**
 * A file on a node whose kube-proxy ran in nftables mode, so that the next one does not have to
 * start nft to detect it.
 */
export const NFTABLES_MARK = '/run/kube-proxy-nftables'

const deleteTables = ['ip', 'ip6']
  .map((family) => `add table ${family} kube-proxy; delete table ${family} kube-proxy`)
  .join('; ')

/** The command with which kube-proxy loads its rules. */
export const restoreCommand = 'iptables-restore -w 5 --noflush'

export type Sysctl = readonly [name: string, value: number]

/**
 * Sets the sysctls that this kernel has, and deletes the tables of nftables mode, unless this is
 * that mode.
 */
export async function prepareNode(
  node: GuestNode,
  sysctls: readonly Sysctl[],
  keepTables: boolean,
): Promise<void> {
  const writes = sysctls.map(
    ([name, value]) => `[ ! -w /proc/sys/${name} ] || echo ${value} >/proc/sys/${name}`,
  )
  // One table that is not there would keep the other: all of it is one transaction.
  const drop = `[ ! -e ${NFTABLES_MARK} ] || { nft '${deleteTables}'; rm ${NFTABLES_MARK}; }`
  await node.run([...writes, ...(keepTables ? [] : [drop]), ''].join('\n'))
}
