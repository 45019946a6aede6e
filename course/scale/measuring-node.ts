import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import {
  ensurePackages,
  firstModules,
  laterModules,
  type Machine,
  requireSupport,
  startMachine,
} from '../../embedded/index.ts'
import { cacheFolder, clusterFolder } from '../../host/layout.ts'
import { programText } from '../../host/program-text.ts'
import type { Progress } from '../../host/progress.ts'
import { shellWord } from '../../host/shell-word.ts'
import { CLIENT, type Counts, countState, SERVER } from './synthetic-cluster.ts'

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
const sysctls = 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/vs/conntrack'

/** The duration of a command, and the CPU time it used. */
export interface Cost {
  ms: number
  cpuMs: number
}

/** The state of a node: counts, and the output of each tool by its file name in a capture. */
export interface Inventory {
  counts: Counts
  printed: Record<'iptables-save' | 'ipset-save' | 'ipvsadm-save', string>
}

/** One node in a separate User-Mode Linux kernel, for measuring: no cluster, no kubelet, no other traffic. */
export class MeasuringNode {
  readonly #machine: Machine
  readonly #folder: string
  #inputs = 0

  private constructor(machine: Machine, folder: string) {
    this.#machine = machine
    this.#folder = folder
  }

  /**
   * Boots the kernel and resolves when the server Pod answers.
   * @throws Unsupported if the kernel can't run
   */
  static async boot(
    name: string,
    memoryMegabytes: number,
    progress: Progress,
  ): Promise<MeasuringNode> {
    await requireSupport('uml')
    const packages = await ensurePackages(cacheFolder, progress)
    const folder = clusterFolder(name)
    // The confined kernel reads only this folder of the cluster's.
    const directory = join(folder, 'uml')
    mkdirSync(directory, { recursive: true })
    const node = new MeasuringNode(
      await startMachine({ packages, directory, name, memoryMegabytes }),
      folder,
    )
    try {
      await node.#must(['sh', '-ec', `${loadModules}${network}`])
      await node.run(sysctls)
      await node.#must(['perl', '-e', echoServer], 'server')
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
    const stdout = await this.#must(['perl', '-e', program, ...args.map(String)], 'client')
    const lines = stdout.trim().split('\n')
    return lines.map((line) => line.split(' ').map(Number))
  }

  /** Runs a program on the node with input from a file, and returns its cost. Empty input runs nothing. */
  async feed(command: string, input: string): Promise<Cost> {
    if (input === '') return { ms: 0, cpuMs: 0 }
    // A file is faster than sending megabytes over the serial line. The kernel caches what it has read, so each input gets its own.
    const file = join(this.#folder, 'uml', `input-${this.#inputs++}`)
    writeFileSync(file, input)
    const began = performance.now()
    const times = await this.run(
      `output=$(${command} <${shellWord(file)} 2>&1) || { echo "$output" >&2; exit 1; }; times`,
    )
    return { ms: performance.now() - began, cpuMs: cpuOf(times) }
  }

  /** The state of the node for Services, read back from the kernel. */
  async inventory(): Promise<Inventory> {
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

/** Starts an echo server on port 8080 for concurrent connections in the background, and ends when it listens. */
const echoServer = programText('course/scale/echo-server.pl')
