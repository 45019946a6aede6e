import { existsSync, readdirSync } from 'node:fs'
import { $, kill, type ProcessOutput, type ProcessPromise } from 'zx/core'
import { processStat } from './live-process.ts'

export { $, type ProcessOutput, type ProcessPromise }

/**
 * Ends a command of `$` and all its descendants, after its timeout or on request. zx's own `kill`
 * runs `ps`, which small systems lack, and makes Node.js 24 and later print a deprecation warning
 * (DEP0190); it is used if there is no /proc.
 */
$.kill = async (pid, signal = $.killSignal ?? 'SIGTERM') => {
  if (!existsSync('/proc/self/stat')) return kill(pid, signal)
  for (const member of processTree(Number(pid)))
    try {
      process.kill(member, signal)
    } catch {
      // It has ended.
    }
}

/**
 * A process and its descendants, by the parent process IDs in /proc/PID/stat (proc_pid_stat(5)).
 */
function processTree(first: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const parent = processStat(name)?.parent
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const members = [first]
  for (const member of members) members.push(...(children.get(member) ?? []))
  return members
}

/**
 * Runs the `exec` of docker, podman or kubectl on this terminal. Resolves to the exit code of the
 * command in the container.
 */
export async function execOnTerminal(
  program: readonly string[],
  args: readonly string[],
): Promise<number> {
  const terminal = process.stdin.isTTY && process.stdout.isTTY ? '-it' : '-i'
  const run = $({ stdio: 'inherit', nothrow: true })
  return (await run`${program} exec ${terminal} ${args}`).exitCode ?? 1
}
