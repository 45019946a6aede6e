import { type ChildProcess, fork } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type DaemonMessage,
  type DaemonOptions,
  daemonOf,
  type ExecEndpoint,
  ensurePackages,
  execOnNode,
  hostKernelTrouble,
  type KernelName,
  leakingDescriptors,
  provePackages,
  readDaemonState,
  removeClusterFolder,
  requireSupport,
  scriptOnNode,
  shellOnNode,
  syncedOnNode,
  type UnexpectedEnd,
  unexpectedEnd,
} from '../embedded/index.ts'
import { cacheFolder, clusterFolder, projectRoot, requireNewName, START } from '../host/layout.ts'
import { runningProcess } from '../host/live-process.ts'
import { Refusal, reasonOf } from '../host/main.ts'
import { plainText } from '../host/plain-text.ts'
import type { Progress } from '../host/progress.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'
import { scaledMs, waitFor } from '../host/wait.ts'
import { changeCluster } from './cluster-lock.ts'
import { KERNEL_TITLES, kernelForNew } from './doctor/choose.ts'
import type { LabNeeds } from './doctor/facts.ts'
import { kernelLacks } from './doctor/kernel-probe.ts'
import { type Capabilities, type Cluster, endText, type KubeClient, notUp } from './driver.ts'
import { clientFromKubeconfig } from './kube-client.ts'

/** A daemon that still runs this long after SIGTERM is killed. */
const endingMs = 10_000

/** A cluster on one real kernel that runs as an ordinary process (embedded/daemon.ts). */
export class EmbeddedCluster implements Cluster {
  readonly driver = 'embedded'
  readonly selector = 'embedded'
  readonly capabilities: Capabilities
  readonly name: string
  readonly kubeconfig: string

  readonly #lab: LabNeeds | undefined

  /**
   * `lab` is the one that is about to start, if any: a new cluster gets a kernel that can run it.
   */
  constructor(name: string, lab?: LabNeeds) {
    this.name = name
    this.#lab = lab
    this.capabilities = capabilitiesOf(this)
    this.kubeconfig = join(clusterFolder(name), 'kubeconfig')
  }

  up(progress: Progress): Promise<void> {
    return changeCluster(this, 'starts', progress, () => this.#start(progress))
  }

  async #start(progress: Progress): Promise<void> {
    if (await this.running()) {
      progress.note(`The embedded cluster "${this.name}" is up.`)
      return this.#noteOtherKernel(progress)
    }
    requireNewName(this.name)
    const end = this.unexpectedEnd()
    if (end) progress.note(`The cluster "${this.name}" ended: ${endText(end)}. A new one starts.`)
    await this.#stop(progress)
    await requireSupport()
    const fetchPackages = () => ensurePackages(cacheFolder, progress)
    const choice = await kernelForNew(fetchPackages, this.#lab)
    if ('refusal' in choice) throw new Refusal(choice.refusal)
    if (choice.note !== undefined) progress.note(choice.note)
    const packages = await fetchPackages()
    const options = {
      name: this.name,
      packages,
      kernel: choice.kernel,
      kubeProxy: process.env.KUBE_PROXY,
      owner: runningProcess(Number(process.env.CLUSTER_OWNER)),
    }
    try {
      await this.#startDaemon(options, progress)
    } catch (error) {
      const damage = provePackages(packages)
      if (!damage) throw error
      progress.note(`"${packages}" is damaged (${damage}): creating it again.`)
      await this.#startDaemon({ ...options, packages: await fetchPackages() }, progress).catch(
        (second: unknown) => {
          const reason = reasonOf(second).replace(/\.$/, '')
          throw new Refusal(
            `${reason}. It also failed with newly created files: delete the folder "${cacheFolder}", then run \`make up\`.`,
          )
        },
      )
    }
  }

  kernel(): KernelName {
    return this.#state().kernel
  }

  /**
   * A cluster keeps its kernel. Steps that need another kernel run on a second cluster, so that no
   * work is lost.
   */
  #noteOtherKernel(progress: Progress): void {
    const lab = this.#lab
    const own = this.kernel()
    const other = own === 'uml' ? 'host' : 'uml'
    const lacking = own === 'uml' ? kernelLacks('embedded', lab?.kernelOfSteps ?? []) : []
    const isLacking = lacking.length > 0 && !hostKernelTrouble()
    if (process.env.KERNEL !== other && !isLacking) return
    const why = isLacking
      ? `, without ${lacking.join(' and ')}: steps that need it are not applicable`
      : ''
    const command = `NAME=${this.name}-${other} KERNEL=${other} make ${lab ? `lab-${lab.number}` : 'up'}`
    progress.note(
      `It keeps its kernel, ${KERNEL_TITLES[own]}${why}; \`${command}\` starts a second cluster.`,
    )
  }

  /**
   * Starts the daemon and shows its progress until it is ready. Ctrl-C, or the end of this process,
   * also ends the daemon.
   */
  async #startDaemon(options: Omit<DaemonOptions, 'inherited'>, progress: Progress): Promise<void> {
    const folder = clusterFolder(this.name)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const logFile = join(folder, 'daemon.log')
    const log = openSync(logFile, 'w', 0o600)
    const inherited = leakingDescriptors()
    const args = ['embedded/daemon.ts', JSON.stringify({ ...options, inherited })]
    const daemon = fork(START, args, {
      execArgv: [],
      cwd: projectRoot,
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    })
    closeSync(log)
    const interrupted = () => {
      daemon.kill('SIGTERM')
      progress.end(false)
      process.exit(130)
    }
    process.once('SIGINT', interrupted)
    try {
      await untilReady(daemon, logFile, progress)
    } catch (error) {
      progress.end(false)
      if (daemonOf(this.name) === daemon.pid) await this.#endDaemon()
      daemon.kill('SIGKILL')
      throw error
    } finally {
      process.off('SIGINT', interrupted)
      if (daemon.connected) daemon.disconnect()
      daemon.removeAllListeners()
      daemon.unref()
    }
  }

  down(progress: Progress): Promise<void> {
    return changeCluster(this, 'stops', progress, () => this.#stop(progress))
  }

  async #stop(progress: Progress): Promise<void> {
    if (daemonOf(this.name) !== undefined) {
      progress.start(`Stopping the embedded cluster "${this.name}"`)
      await this.#endDaemon()
      progress.end(true)
    }
    removeClusterFolder(this.name)
  }

  /** Ends the daemon, ready or not, and resolves when it is gone. */
  async #endDaemon(): Promise<void> {
    const pid = daemonOf(this.name)
    if (pid === undefined) return
    const gone = () =>
      waitFor(`process ${pid} to end`, endingMs, async () => daemonOf(this.name) !== pid)
    try {
      process.kill(pid, 'SIGTERM')
      await gone()
    } catch {
      if (daemonOf(this.name) !== pid) return
      process.kill(pid, 'SIGKILL')
      await gone()
    }
  }

  async running(): Promise<boolean> {
    return readDaemonState(this.name) !== undefined && existsSync(this.kubeconfig)
  }

  unexpectedEnd(): UnexpectedEnd | undefined {
    return unexpectedEnd(this.name)
  }

  /** The nodes have one machine: without it, the cluster is not up. */
  async stoppedNodes(): Promise<string[]> {
    return []
  }

  client(): Promise<KubeClient> {
    return clientFromKubeconfig(this)
  }

  async nodes(): Promise<string[]> {
    return this.#state().nodes
  }

  exec(node: string, command: readonly string[], options?: ExecOptions): Promise<ExecResult> {
    return execOnNode(this.#endpoint(), node, command, options)
  }

  script(node: string, text: string, timeoutMs: number, signal?: AbortSignal): Promise<ExecResult> {
    return scriptOnNode(this.#endpoint(), node, text, timeoutMs, signal)
  }

  async synced(timeoutMs: number): Promise<string[]> {
    const endpoint = this.#endpoint()
    const deadlineMs = scaledMs(timeoutMs)
    const late = (await this.nodes()).map(async (node) =>
      // The callers read the nodes anyway: a node that can't be asked is theirs to report.
      (await syncedOnNode(endpoint, node, deadlineMs).catch(() => true)) ? [] : [node],
    )
    return (await Promise.all(late)).flat()
  }

  shell(node: string, command: readonly string[] = ['bash', '-l']): Promise<number> {
    return shellOnNode(this.#endpoint(), node, command)
  }

  #state() {
    const state = readDaemonState(this.name)
    if (!state) throw notUp(this)
    return state
  }

  #endpoint(): ExecEndpoint {
    const { port, token } = this.#state()
    return { port, token, ca: readFileSync(join(clusterFolder(this.name), 'ca.crt')) }
  }
}

const capabilitiesOf = (cluster: EmbeddedCluster): Capabilities => ({
  ownedByUser: false,
  hasOutside: true,
  recordsCommands: true,
  runsOldKubeProxies: true,
  ownIptables: true,
  sharedKernel: true,
  /** Throws when it is not up. */
  get ownKernel() {
    return cluster.kernel() === 'uml'
  },
  choosesKernel: true,
  reportsSync: true,
})

/**
 * Why a start failed, for a daemon that ended without a report: by `how`, with this last line in
 * its log.
 */
export function describeFailedStart(how: string, lastLine: string, logFile: string): string {
  const start = `The embedded cluster ended while it started (${how})`
  const again = `run the command again, or see "${logFile}"`
  if (lastLine.trim() !== '')
    return `${start}: ${plainText(lastLine).replace(/\.$/, '')}: ${again}.`
  const cause =
    how === 'SIGKILL'
      ? 'another process on this machine killed it, or Linux because memory ran out'
      : 'its log is empty'
  return `${start}; ${cause}: ${again}.`
}

/**
 * Shows the progress that a daemon reports. Rejects with what it reports, or with the end of its
 * log if it ends.
 */
function untilReady(daemon: ChildProcess, logFile: string, progress: Progress): Promise<void> {
  return new Promise((resolve, reject) => {
    daemon.on('message', (message: DaemonMessage) => {
      if (message.type === 'start') progress.start(message.text)
      else if (message.type === 'end') progress.end(true)
      else if (message.type === 'note') progress.note(message.text)
      else if (message.type === 'ready') resolve()
      else reject(new Error(message.text))
    })
    daemon.on('error', reject)
    daemon.on('exit', (code, signal) => {
      const lines = readFileSync(logFile, 'utf8').trim().split('\n')
      reject(new Error(describeFailedStart(signal ?? String(code), lines.at(-1) ?? '', logFile)))
    })
  })
}
