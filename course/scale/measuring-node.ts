import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { parseNftList } from '../../dataplane/nft-list.ts'
import {
  ensurePackages,
  firstModules,
  hostKernelTrouble,
  type KernelName,
  laterModules,
  type Machine,
  requireSupport,
  startMachine,
  Unsupported,
} from '../../embedded/index.ts'
import { cacheFolder, clusterFolder } from '../../host/layout.ts'
import { reasonOf } from '../../host/main.ts'
import { programText } from '../../host/program-text.ts'
import type { Progress } from '../../host/progress.ts'
import { shellWord } from '../../host/shell-word.ts'
import type { HostCurve } from './measurement.ts'
import { CLIENT, type Counts, countState, countTable, SERVER } from './synthetic-cluster.ts'

const gateway = '169.254.1.1'
const pods = { client: CLIENT, server: SERVER }

const loadModules = `modprobe -a ${[...firstModules, ...laterModules].join(' ')}\n`
/** A node with two Pods: the client and the only server. */
const network = [
  ...['node', ...Object.keys(pods)].map(
    (name) => `ip netns add ${name}; ip -n ${name} link set lo up`,
  ),
  ...Object.entries(pods).flatMap(([pod, address]) => [
    `ip -n node link add ${pod} type veth peer name eth0 netns ${pod}`,
    `ip -n node link set ${pod} up; ip -n node addr add ${gateway}/32 dev ${pod}`,
    `ip -n ${pod} link set eth0 up; ip -n ${pod} addr add ${address}/32 dev eth0`,
    `ip -n ${pod} route add ${gateway} dev eth0; ip -n ${pod} route add default via ${gateway}`,
    `ip -n node route add ${address} dev ${pod}`,
  ]),
].join('\n')
/** As kube-proxy sets them. */
const sysctls =
  'cd /proc/sys/net/ipv4; echo 1 >ip_forward; [ ! -e vs/conntrack ] || echo 1 >vs/conntrack'

/**
 * A curve of a run: in User-Mode Linux one for each mode, on this machine's own kernel those that
 * need it.
 */
export type MeasuredCurve = SwitchedMode | HostCurve

const IPTABLES: Partial<Record<MeasuredCurve, string>> = {
  'iptables-legacy': 'xtables-legacy-multi ',
  'iptables-nft': 'xtables-nft-multi ',
}

/**
 * What a command of iptables begins with for a curve. User-Mode Linux has only one iptables, which
 * needs no beginning.
 */
export const iptablesOf = (curve: MeasuredCurve): string => IPTABLES[curve] ?? ''

/** The duration of a command, and the CPU time it used. */
export interface Cost {
  ms: number
  cpuMs: number
}

/** The state of a node: counts, and the output of each tool by its file name in a capture. */
export interface Inventory {
  counts: Counts
  printed: Partial<Record<'iptables-save' | 'ipset-save' | 'ipvsadm-save' | 'nft-list', string>>
}

/**
 * One node for measuring, in a separate User-Mode Linux kernel or in namespaces of this machine's
 * own: no cluster, no kubelet.
 */
export class MeasuringNode {
  readonly #machine: Machine
  readonly #folder: string
  /**
   * Before client and server: with one processor, as a node of User-Mode Linux has, the time of one
   * includes that of the other.
   */
  readonly #pinned: readonly string[]
  #inputs = 0

  private constructor(machine: Machine, folder: string) {
    this.#machine = machine
    this.#folder = folder
    this.#pinned = machine.ownKernel ? [] : ['taskset', '-c', lastProcessor()]
  }

  /**
   * Starts the kernel and resolves when the server Pod answers. `memoryMegabytes` is that of
   * User-Mode Linux.
   * @throws Unsupported if the kernel can't run
   */
  static async boot(
    kernel: KernelName,
    name: string,
    memoryMegabytes: number,
    progress: Progress,
  ): Promise<MeasuringNode> {
    await requireSupport(kernel)
    if (kernel === 'host') requireHostKernel()
    const packages = await ensurePackages(cacheFolder, progress)
    const folder = clusterFolder(name)
    // The confined kernel reads only this folder of the cluster's.
    const directory = join(folder, 'uml')
    mkdirSync(directory, { recursive: true })
    const machine = await startMachine({ kernel, packages, directory, name, memoryMegabytes })
    const node = new MeasuringNode(machine, folder)
    try {
      await node.#must(['sh', '-ec', `${machine.ownKernel ? loadModules : ''}${network}`])
      await node.run(sysctls)
      await node.#must([...node.#pinned, 'perl', '-e', echoServer], 'server')
      return node
    } catch (error) {
      await node.stop()
      throw error
    }
  }

  async #must(command: readonly string[], netns?: string): Promise<string> {
    const place = netns === undefined ? {} : { netns }
    const { exitCode, stdout, stderr } = await this.#machine.run(command, place, {
      timeoutMs: 600_000,
    })
    if (exitCode === 0) return stdout
    throw new Error(
      `"${command[0]}" ended with ${exitCode} on the measuring node: ${stderr.trim().slice(0, 300)}`,
    )
  }

  /** Runs a shell script on the node; rejects when it fails. */
  run(script: string): Promise<string> {
    return this.#must(['sh', '-ec', script], 'node')
  }

  /** Runs a Perl program in the client Pod; resolves to the numbers of each line it prints. */
  async ask(program: string, args: readonly (string | number)[]): Promise<number[][]> {
    const command = [...this.#pinned, 'perl', '-e', program, ...args.map(String)]
    const stdout = await this.#must(command, 'client')
    const lines = stdout.trim().split('\n')
    return lines.map((line) => line.split(' ').map(Number))
  }

  /**
   * Runs a program on the node with input from a file, and returns its cost. Empty input runs
   * nothing.
   */
  async feed(command: string, input: string): Promise<Cost> {
    if (input === '') return { ms: 0, cpuMs: 0 }
    const file = await this.#inputFile(input)
    const began = performance.now()
    const times = await this.run(
      `output=$(${command} <${shellWord(file)} 2>&1) || { echo "$output" >&2; exit 1; }; times`,
    )
    return { ms: performance.now() - began, cpuMs: cpuOf(times) }
  }

  /**
   * A file is faster than sending megabytes over the serial line of User-Mode Linux, which caches
   * what it has read: each input gets its own. A guest on this machine's kernel sees no file of the
   * machine.
   */
  async #inputFile(content: string): Promise<string> {
    if (!this.#machine.ownKernel) {
      await this.#machine.write([{ path: GUEST_INPUT, content }])
      return GUEST_INPUT
    }
    const file = join(this.#folder, 'uml', `input-${this.#inputs++}`)
    writeFileSync(file, content)
    return file
  }

  /**
   * Why this kernel can't hold the rules of a curve, in the words of the program that writes them;
   * undefined if it can.
   */
  async troubleWith(curve: HostCurve): Promise<string | undefined> {
    const [command, input] =
      curve === 'nftables'
        ? ['nft -f -', NFT_PROBE]
        : [`${iptablesOf(curve)}iptables-restore`, IPTABLES_PROBE]
    try {
      await this.feed(command, input)
      return undefined
    } catch (error) {
      return reasonOf(error)
    }
  }

  /** The state of the node for Services, read back from the kernel. */
  async inventory(curve: MeasuredCurve): Promise<Inventory> {
    if (curve === 'nftables') {
      const json = await this.run('nft -j list table ip kube-proxy')
      const text = await this.run('nft list table ip kube-proxy')
      return { counts: countTable(parseNftList(json)), printed: { 'nft-list': text } }
    }
    if (curve === 'iptables-legacy' || curve === 'iptables-nft') {
      const text = await this.run(`${iptablesOf(curve)}iptables-save`)
      const state = { iptables: parseIptablesSave(text), ipsets: new Map(), virtualServers: [] }
      return { counts: countState(state), printed: { 'iptables-save': text } }
    }
    const mark = '==NEXT=='
    const text = await this.run(
      `iptables-save; echo ${mark}; ipset save; echo ${mark}; ipvsadm -Sn`,
    )
    const [rules = '', sets = '', servers = ''] = text.split(`${mark}\n`)
    const counts = countState({
      iptables: parseIptablesSave(rules),
      ipsets: parseIpsetSave(sets),
      virtualServers: parseIpvsadmSave(servers),
    })
    return {
      counts,
      printed: { 'iptables-save': rules, 'ipset-save': sets, 'ipvsadm-save': servers },
    }
  }

  /** Stops the kernel and removes its files. */
  async stop(): Promise<void> {
    await this.#machine.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Milliseconds of user and system time of a shell's children: the second line of `times`. */
function cpuOf(text: string): number {
  const line = text.trim().split('\n').at(-1) ?? ''
  return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (total, [, minutes, seconds]) => total + (Number(minutes) * 60 + Number(seconds)) * 1000,
    0,
  )
}

/**
 * Starts an echo server on port 8080 for concurrent connections in the background, and ends when it
 * listens.
 */
const echoServer = programText('course/scale/echo-server.pl')

/**
 * Throws Unsupported where this user can't have the namespaces of a node, with the command that
 * allows it if there is one.
 */
function requireHostKernel(): void {
  const trouble = hostKernelTrouble()
  if (!trouble) return
  const fix = trouble.fix ? `; \`${trouble.fix}\` allows it` : ''
  throw new Unsupported(
    `Nothing can be measured on this machine's own kernel, because ${trouble.detail}${fix}.`,
  )
}

/** The last processor that this process may use: the first ones get most interrupts. */
function lastProcessor(): string {
  const allowed = /^Cpus_allowed_list:\s*(\S+)$/m.exec(
    readFileSync('/proc/self/status', 'utf8'),
  )?.[1]
  return allowed?.split(/[,-]/).at(-1) ?? '0'
}

const GUEST_INPUT = '/run/measuring-input'
/**
 * What only a kernel with NAT for the program accepts; the node on which it is tried is not
 * measured.
 */
const IPTABLES_PROBE =
  '*nat\n:KUBE-PROBE - [0:0]\n-A KUBE-PROBE -p tcp -m comment --comment probe -m tcp --dport 80 -j DNAT --to-destination 192.0.2.1:80\nCOMMIT\n'
const NFT_PROBE = `add table ip probe
add chain ip probe services { type nat hook prerouting priority -100; }
add rule ip probe services ip daddr 192.0.2.1 meta l4proto tcp dnat to 192.0.2.2:80
delete table ip probe
`
