import { shellWord } from '../../host/shell-word.ts'
import type { Placement, Privileges, ScriptPlace } from './machine.ts'

/** The program of confine.c in the guest; in a tree of packages, without the first slash. */
export const GUEST_CONFINE = '/usr/lib/uml/confine'

/** The options of confine.c for these privileges. */
export const privilegeOptions = ({ capabilities, noNewPrivileges }: Privileges): string[] => [
  ...(capabilities === undefined ? [] : ['--capabilities', capabilities]),
  ...(noNewPrivileges ? ['--no-new-privs'] : []),
]

/** A process that the host requests from the agent. */
export interface SpawnRequest extends Placement {
  command: readonly string[]
  tty?: boolean
  size?: { columns: number; rows: number }
  /** Standard input is /dev/null. */
  noInput?: boolean
  /** The command ends in `unshare --pid --fork`: signals go to the first process of the new namespace, not to its parent. */
  inNamespace?: boolean
}

/** A script for a waiting shell at this place. */
export interface ScriptRequest extends ScriptPlace {
  script: string
}

/**
 * The namespaces a process of the guest is moved into before the command starts. nsenter and setpriv are not used: setpriv would
 * be a file of the container, which its root can replace, and run with all privileges.
 */
export function enterNamespaces(placement: Placement, tty = false): string[] {
  const prefix: string[] = []
  if (placement.pid !== undefined)
    prefix.push(
      ...[GUEST_CONFINE, '--enter', String(placement.pid), ...(tty ? ['--terminal'] : [])],
      ...[...privilegeOptions(placement.privileges ?? {}), '--'],
    )
  else if (placement.netns !== undefined) prefix.push('nsenter', `--net=/run/netns/${placement.netns}`)
  if (placement.hostname !== undefined)
    prefix.push('unshare', '--uts', 'sh', '-c', 'hostname "$0"; exec "$@"', placement.hostname)
  return prefix
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
