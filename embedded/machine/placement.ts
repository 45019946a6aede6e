import { shellWord } from '../../host/shell-word.ts'
import type { Placement, ScriptPlace } from './machine.ts'

/** What the host asks the agent to start. */
export interface SpawnRequest extends Placement {
  command: readonly string[]
  tty?: boolean
  size?: { columns: number; rows: number }
  /** Standard input is /dev/null. */
  noInput?: boolean
  /** The command ends in `unshare --pid --fork`: signals go to the first process of the new namespace, not to its maker. */
  inNamespace?: boolean
}

/** A script of ours, run in a shell that waits at this place. */
export interface ScriptRequest extends ScriptPlace {
  script: string
}

/** The namespaces a process of the guest is moved into before the command starts (util-linux nsenter and unshare). */
export function enterNamespaces(placement: Placement, tty = false): string[] {
  const prefix: string[] = []
  if (placement.pid !== undefined)
    prefix.push('nsenter', `--target=${placement.pid}`, '--net', '--uts', '--ipc', '--mount', '--pid', '--root', '--wd')
  else if (placement.netns !== undefined) prefix.push('nsenter', `--net=/run/netns/${placement.netns}`)
  // A shell controls jobs only in a session whose leader is in its own process namespace.
  if (placement.pid !== undefined && tty) prefix.push('setsid', '--ctty')
  if (placement.hostname !== undefined)
    prefix.push('unshare', '--uts', 'sh', '-c', 'hostname "$0"; exec "$@"', placement.hostname)
  return prefix
}

/**
 * Program and arguments that carry out a request. With a terminal, util-linux `script` owns the pseudo terminal; its name
 * is left in `terminalFile` so that it can be resized from outside.
 */
export function spawnArguments(request: SpawnRequest, terminalFile: string): string[] {
  const argv = [...enterNamespaces(request, request.tty), ...request.command]
  if (!request.tty) return argv
  const { columns, rows } = request.size ?? { columns: 80, rows: 24 }
  const line = `stty cols ${columns} rows ${rows}; tty >${shellWord(terminalFile)}; exec ${argv.map(shellWord).join(' ')}`
  return ['script', '--quiet', '--flush', '--return', '--command', line, '/dev/null']
}
