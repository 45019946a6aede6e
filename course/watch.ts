// When a guide reads the nodes: immediately and often during activity, rarely otherwise. Reading
// them takes 0.25 s of CPU on the embedded cluster's own kernel.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { programText } from '../host/program-text.ts'

/** The shortest pause between two reads during activity. */
const BUSY_PAUSE_MS = 200
/**
 * Longer reads are followed by a longer pause: this part of their time, so that a third of all time
 * is for other work.
 */
const BUSY_PAUSE_PART = 0.5
/**
 * The duration of activity after its last sign: the time in which a program on a node has its
 * effect.
 */
const BUSY_MS = 700
/**
 * The longest pause between two reads without activity: where started programs are reported, and
 * where they are not. There (kind, a context) one read is an exec on each node through the
 * container engine or the API server, so an idle page that read every second would keep a part of a
 * core busy; a command of a terminal and an event of the API still are signs.
 */
const IDLE_PAUSE_MS = 20_000
const BLIND_PAUSE_MS = 5000
/** The pause before nodes are read again that could not be read. */
const UNREAD_PAUSE_MS = 1000

/** What one read of the nodes found: a change, none, or that they could not be read. */
export type Observed = 'changed' | 'unchanged' | 'unread'

export class Watch {
  readonly #cluster: Cluster
  readonly #readNodes: () => Promise<Observed>
  readonly #over = new AbortController()
  #waiting = new AbortController()
  #watched = false
  #signAt = 0
  #programAt = 0

  /** `readNodes` reads the nodes. */
  constructor(cluster: Cluster, readNodes: () => Promise<Observed>) {
    this.#cluster = cluster
    this.#readNodes = readNodes
  }

  /** Reports activity: the nodes are read now. */
  sign(): void {
    this.#signAt = Date.now()
    this.#waiting.abort()
  }

  /** The nodes are read only while a guide shows them. */
  setWatched(watched: boolean): void {
    this.#watched = watched
    this.sign()
  }

  end(): void {
    this.#over.abort()
    this.#waiting.abort()
  }

  /** Reads the nodes until `end`. */
  async run(): Promise<void> {
    void watchObjects(this.#cluster, () => this.sign(), this.#over.signal)
    while (!this.#over.signal.aborted) {
      this.#waiting = new AbortController()
      if (!this.#watched) {
        await this.#until(2 ** 31 - 1)
        continue
      }
      const began = Date.now()
      const observed = await this.#readNodes()
      const now = Date.now()
      if (observed === 'changed') this.#signAt = now
      // A program may have its effect during the read, however long that takes.
      const isBusy = began - Math.max(this.#signAt, this.#programAt) < BUSY_MS
      if (isBusy) await this.#until(busyPauseMs(now - began), this.#over.signal)
      else if (observed === 'unread') await this.#until(UNREAD_PAUSE_MS)
      else
        await this.#untilProgram(quietPauseMs(now - this.#signAt, reportsPrograms(this.#cluster)))
    }
  }

  /** Waits for `ms`, or until a sign of activity (`signal`). */
  async #until(ms: number, signal = this.#waiting.signal): Promise<void> {
    await pause(ms, undefined, { signal }).catch(() => {})
  }

  /** Waits until a sign, until a program is started on a node that reports it, or for `ms`. */
  async #untilProgram(ms: number): Promise<void> {
    const waiting = this.#waiting
    // kube-proxy starts programs every 30 s: unless one changes something, it is no sign of
    // activity.
    const onProgram = () => {
      if (waiting.signal.aborted) return
      this.#programAt = Date.now()
      waiting.abort()
    }
    if (reportsPrograms(this.#cluster))
      void watchPrograms(this.#cluster, onProgram, waiting.signal).catch(
        () => waiting.signal.aborted || this.sign(),
      )
    await this.#until(ms)
    waiting.abort()
  }
}

/**
 * The pause after a read that took so long, during activity. A change that a read has just missed
 * waits for the rest of it, this pause and the next read: with reads of 0.7 s 1.75 s.
 */
export const busyPauseMs = (readMs: number): number =>
  Math.max(BUSY_PAUSE_MS, readMs * BUSY_PAUSE_PART)

/**
 * The pause after so long without a sign. It grows: what a program does long after it was started
 * is no further sign.
 */
export const quietPauseMs = (quietMs: number, reportsPrograms: boolean): number =>
  Math.min(reportsPrograms ? IDLE_PAUSE_MS : BLIND_PAUSE_MS, Math.max(BUSY_PAUSE_MS, quietMs / 2))

/**
 * The interval of the test whether a program was started on a node, and the number of tests in one
 * run of the script.
 */
const STEP_SECONDS = 0.25
const STEPS = 80
/** The pause before a watch that ended is started again. */
const AGAIN_MS = 1000

/** The kinds of objects that steps check. */
const WATCHED = [
  '/api/v1/nodes',
  '/api/v1/services',
  '/api/v1/pods',
  '/api/v1/namespaces/default/configmaps',
  '/apis/discovery.k8s.io/v1/endpointslices',
]

/**
 * Ends when a program was started: the last field of /proc/loadavg is the process ID that was given
 * last in this PID namespace (proc(5)). One bash that only uses builtins: it starts nothing itself,
 * and waits by reading from a pipe that no process writes to.
 */
const UNTIL_PROGRAM = programText('course/until-program.sh')

/**
 * Whether a cluster can report cheaply that programs are started: where all nodes are one kernel
 * and nothing runs by itself.
 */
const reportsPrograms = ({ capabilities }: Cluster): boolean => capabilities.sharedKernel

/**
 * Calls `onSign` when a program is started on any node of such a cluster, until `signal` aborts.
 * Rejects if the cluster can't be reached.
 */
async function watchPrograms(
  cluster: Cluster,
  onSign: () => void,
  signal: AbortSignal,
): Promise<void> {
  const [node] = await cluster.nodes()
  if (node === undefined) return
  while (!signal.aborted) {
    const { exitCode } = await runOnNode(cluster, node, UNTIL_PROGRAM, {
      args: [String(STEPS), String(STEP_SECONDS)],
      readOnly: true,
      timeoutMs: 60_000,
      signal,
    })
    if (exitCode === 0) return onSign()
  }
}

/** Calls `onSign` on every API event about objects that steps check, until `signal` aborts. */
export async function watchObjects(
  cluster: Cluster,
  onSign: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { Watch: ApiWatch } = await import('../cluster/kubernetes.ts')
  // One listener for all watches: each of them ends and begins again as often as the cluster goes
  // down.
  const open = new Map<string, AbortController>()
  signal.addEventListener('abort', () => {
    for (const request of open.values()) request.abort()
  })
  const follow = async (path: string) => {
    while (!signal.aborted) {
      try {
        const watch = new ApiWatch((await kubeClient(cluster)).config)
        await new Promise<void>((resolve, reject) => {
          void watch
            .watch(path, {}, onSign, () => resolve())
            .then((request) => {
              open.set(path, request)
              if (signal.aborted) request.abort()
            }, reject)
        })
      } catch {
        // The cluster is not up: its nodes are read until it is.
      }
      await pause(AGAIN_MS, undefined, { signal }).catch(() => {})
    }
  }
  await Promise.all(WATCHED.map(follow))
}
