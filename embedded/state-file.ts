import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterFolder } from '../host/layout.ts'
import { isLive, type NotedProcess, notedProcess, noteProcess } from '../host/live-process.ts'
import type { InheritedDescriptor } from './inherited-descriptors.ts'
import type { KernelName } from './machine/kernel.ts'

/**
 * What the daemon notes in its folder so that commands find it. A cache: the process itself is the
 * truth.
 */
export interface DaemonState extends NotedProcess {
  port: number
  token: string
  nodes: string[]
  /** What it runs on. */
  kernel: KernelName
}

/**
 * Until the daemon is ready, it names only its process: it is found and ended though it never gets
 * ready.
 */
const stateFile = (name: string) => join(clusterFolder(name), 'daemon.json')

const isDaemonReady = (state: Partial<DaemonState> | undefined): state is DaemonState =>
  state?.port !== undefined

/**
 * The daemon's state, or undefined when it is not ready or does not run (a file that a dead daemon
 * left is no state).
 */
export function readDaemonState(name: string): DaemonState | undefined {
  const state = readJson<Partial<DaemonState>>(stateFile(name))
  return isDaemonReady(state) && isLive(state) ? state : undefined
}

/** Notes that this process, the daemon of a cluster, is ready. */
export function writeDaemonState(name: string, state: Omit<DaemonState, keyof NotedProcess>): void {
  noteProcess(stateFile(name), process.pid, state)
}

/** The daemon of a cluster that starts, runs or ends; undefined when there is none. */
export const daemonOf = (name: string): number | undefined => notedProcess(stateFile(name))

/** Makes this process the daemon of a cluster. @throws Error when another one is */
export function becomeDaemon(name: string): void {
  const other = daemonOf(name)
  if (other !== undefined)
    throw new Error(
      `The cluster "${name}" has a daemon already (process ${other}): run \`make down\`.`,
    )
  mkdirSync(clusterFolder(name), { recursive: true, mode: 0o700 })
  noteProcess(stateFile(name), process.pid)
}

/** Why a cluster ended that was not stopped. */
export interface UnexpectedEnd {
  /** When, in local time; undefined where nothing was there to note it. */
  at?: string
  /** What happened, in words that follow "is not up:". */
  reason: string
  /** The file that tells more. */
  log: string
}

/** What is kept of a cluster that ended by itself, until the next `make up` or `make down`. */
const logFile = (name: string) => join(clusterFolder(name), 'daemon.log')
export const consoleFile = (name: string) => join(clusterFolder(name), 'console.log')
const endFile = (name: string) => join(clusterFolder(name), 'ended.json')

/** Removes what served a cluster whose kernel ended by itself, and notes why; its logs stay. */
export function noteEnd(name: string, reason: string): void {
  const folder = clusterFolder(name)
  // It is not ready from now on.
  noteProcess(stateFile(name), process.pid)
  const kept = [logFile(name), consoleFile(name), stateFile(name)]
  for (const path of readdirSync(folder).map((entry) => join(folder, entry)))
    if (!kept.includes(path)) rmSync(path, { recursive: true, force: true })
  const at = new Date().toLocaleString('sv')
  writeFileSync(endFile(name), JSON.stringify({ at, reason, log: consoleFile(name) }), {
    mode: 0o600,
  })
}

/** Why a cluster that was up ended by itself; undefined when it did not. */
export function unexpectedEnd(name: string): UnexpectedEnd | undefined {
  if (daemonOf(name) !== undefined) return undefined
  if (existsSync(endFile(name))) {
    const noted = readJson<UnexpectedEnd>(endFile(name))
    return noted ?? { reason: 'it ended, and why is not noted', log: consoleFile(name) }
  }
  // A daemon that ends takes its state away.
  if (!isDaemonReady(readJson(stateFile(name)))) return undefined
  return { reason: 'its daemon was killed, or this machine was restarted', log: logFile(name) }
}

/**
 * What this program wrote into a file; undefined when there is none, or it was not written to its
 * end.
 */
function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

/** Removes a cluster's files, unless they are those of a live daemon that is not `owner`. */
export function removeClusterFolder(name: string, owner?: number): void {
  const daemon = daemonOf(name)
  if (daemon === undefined || daemon === owner)
    rmSync(clusterFolder(name), { recursive: true, force: true })
}

/**
 * Annotation of kube-proxy's DaemonSet in an embedded cluster that runs a genuine program, which
 * has only one version.
 */
export const genuineAnnotation = 'kube-service-labs/genuine'

/** What the daemon is told when it starts. */
export interface DaemonOptions {
  name: string
  packages: string
  kernel: KernelName
  /** A genuine kube-proxy to run instead of ours. */
  kubeProxy?: string
  /** The process that the cluster was started for: the cluster ends with it, however it ends. */
  owner?: NotedProcess | undefined
  /** What the daemon inherits and closes. */
  inherited: InheritedDescriptor[]
}

/** Messages from the daemon to the process that started it. */
export type DaemonMessage =
  | { type: 'start'; text: string }
  | { type: 'end' }
  | { type: 'note'; text: string }
  | { type: 'ready' }
  | { type: 'failed'; text: string }
