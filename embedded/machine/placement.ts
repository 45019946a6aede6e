import { shellWord } from '../../host/shell-word.ts'
import type { Placement, Privileges, ScriptPlace, SpawnOptions } from './machine.ts'

/** The program of confine.c in the guest; in a tree of packages, without the first slash. */
export const GUEST_CONFINE = '/usr/lib/uml/confine'

/** The options of confine.c for these privileges. */
export const privilegeOptions = ({ capabilities, noNewPrivileges }: Privileges): string[] => [
  ...(capabilities === undefined ? [] : ['--capabilities', capabilities]),
  ...(noNewPrivileges ? ['--no-new-privs'] : []),
]

/** A process that the host requests from the agent. */
export interface SpawnRequest extends Placement, SpawnOptions {
  command: readonly string[]
}

/** A script for a waiting shell at this place. */
export interface ScriptRequest extends ScriptPlace {
  script: string
}

/**
 * The namespaces a process of the guest is moved into before the command starts. nsenter and setpriv are not used: setpriv would
 * be a file of the container, which its root can replace, and run with all privileges.
 */
export function enterNamespaces({ pid, netns, privileges }: Placement, tty = false): string[] {
  if (pid === undefined) return netns === undefined ? [] : ['nsenter', `--net=/run/netns/${netns}`]
  const options = [...(tty ? ['--terminal'] : []), ...privilegeOptions(privileges ?? {})]
  return [GUEST_CONFINE, '--enter', String(pid), ...options, '--']
}

/**
 * Program and arguments for a request. With a terminal, util-linux `script` owns the pseudo terminal; its name is written to
 * `terminalFile` so that it can be resized from outside.
 */
export function spawnArguments(request: SpawnRequest, terminalFile: string): string[] {
  const argv = [...enterNamespaces(request, request.tty), ...request.command]
  if (!request.tty) return argv
  const { columns, rows } = request.size ?? { columns: 80, rows: 24 }
  const line = `stty cols ${columns} rows ${rows}; tty >${shellWord(terminalFile)}; exec ${argv.map(shellWord).join(' ')}`
  return ['script', '--quiet', '--flush', '--return', '--command', line, '/dev/null']
}
