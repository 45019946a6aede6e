import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterFolder } from '../host/layout.ts'

/** What the daemon leaves in its folder so that commands find it. A cache: the process itself is the truth. */
export interface DaemonState {
  pid: number
  /** When the process started (field 22 of /proc/PID/stat): a number that was given to another process has another one. */
  startTime: string
  port: number
  token: string
  nodes: string[]
}

/** By hand: every command comes this way, and loading a library for it would take a fifth of a second. */
function isState(value: unknown): value is DaemonState {
  const { pid, startTime, port, token, nodes }: Partial<Record<keyof DaemonState, unknown>> = Object(value)
  const numbers = [pid, port].every((number) => Number.isInteger(number) && Number(number) > 0)
  const texts = [startTime, token].every((text) => typeof text === 'string')
  return numbers && texts && Array.isArray(nodes) && nodes.every((node) => typeof node === 'string')
}

const stateFile = (name: string) => join(clusterFolder(name), 'daemon.json')

/** Start time of a live process, or undefined when there is none. Zombies count as gone. */
export function processStartTime(pid: number): string | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

/** The daemon's state, or undefined when it does not run (a file that a dead daemon left is no state). */
export function readDaemonState(name: string): DaemonState | undefined {
  if (!existsSync(stateFile(name))) return undefined
  try {
    const state: unknown = JSON.parse(readFileSync(stateFile(name), 'utf8'))
    return isState(state) && processStartTime(state.pid) === state.startTime ? state : undefined
  } catch {
    return undefined
  }
}

export function writeDaemonState(name: string, state: DaemonState): void {
  writeFileSync(stateFile(name), `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 })
}

export function removeClusterFolder(name: string): void {
  rmSync(clusterFolder(name), { recursive: true, force: true })
}
