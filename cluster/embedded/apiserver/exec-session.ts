import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import type { GuestProcess } from '../machine/machine.ts'
import type { ExecRequest } from './node-backend.ts'
import { containerOf } from './pod-log.ts'
import type { Target } from './request-path.ts'
import { resourceNamed } from './resource.ts'
import { badRequest, notFound } from './status-error.ts'
import type { Store } from './store.ts'

/** Which streams the client wants. */
export interface ExecOptions {
  stdin: boolean
  stdout: boolean
  stderr: boolean
}

/** A connection that carries one command's streams, whatever its protocol. */
export interface ExecTransport {
  /** What the client sends to the command; absent when it sends nothing. */
  stdin?: Readable
  stdout?: Writable
  stderr?: Writable
  onResize(listener: (columns: number, rows: number) => void): void
  onGone(listener: () => void): void
  /** Reports how the command ended and closes the connection. */
  finish(status: object): void
}

/** Reads an exec request from its path and query. Throws 404 for a missing target, 400 for an unusable request. */
export function readExec(
  store: Store,
  target: Target,
  query: URLSearchParams,
): { request: ExecRequest; options: ExecOptions } {
  if (target.is !== 'resource' || target.subresource !== 'exec' || target.name === undefined) {
    throw badRequest('only the exec subresource of pods and nodes takes an upgraded connection')
  }
  const { name, namespace } = target
  const command = query.getAll('command')
  if (command.length === 0) throw badRequest('you must specify at least 1 command for the container')
  const on = (stream: string): boolean => ['true', '1'].includes(query.get(stream) ?? '')
  const tty = on('tty')
  // With a terminal both outputs come as one.
  const options = { stdin: on('stdin'), stdout: on('stdout'), stderr: on('stderr') && !tty }
  if (!options.stdin && !options.stdout && !options.stderr) {
    throw badRequest('you must specify at least one of stdin, stdout, stderr')
  }
  if (!store.get(target.resource.stored, namespace, name)) throw notFound(resourceNamed(target.resource.stored), name)
  if (namespace === undefined) return { request: { target: { kind: 'node', name }, command, tty }, options }
  const container = containerOf(store, namespace, name, query.get('container') || undefined)
  return { request: { target: { kind: 'pod', namespace, name, container }, command, tty }, options }
}

/** Joins a command's streams with the client's until the command ends or the client goes. */
export async function runSession(process: GuestProcess, transport: ExecTransport): Promise<void> {
  let ended = false
  transport.onResize((columns, rows) => process.resize(columns, rows))
  transport.onGone(() => {
    if (!ended) process.kill('SIGKILL')
  })
  // A command that closes its input early is no error.
  process.stdin.on('error', () => {})
  if (transport.stdin) transport.stdin.pipe(process.stdin)
  else process.stdin.end()
  const outputs = [carry(process.stdout, transport.stdout), carry(process.stderr, transport.stderr)]
  try {
    const { code, signal } = await process.exited
    await Promise.all(outputs)
    ended = true
    transport.finish(exitStatus(code, signal))
  } catch (error) {
    ended = true
    transport.finish(failure('InternalError', error instanceof Error ? error.message : String(error)))
  }
}

/** Carries an output to its end; an output that nobody wants is read away. */
function carry(from: Readable, to: Writable | undefined): Promise<void> {
  return new Promise((resolve) => {
    from.on('error', () => resolve())
    if (!to) {
      from.on('close', resolve).on('end', resolve).resume()
      return
    }
    to.on('error', () => resolve())
    to.on('finish', resolve)
    to.on('close', resolve)
    from.on('close', () => to.end())
    from.pipe(to)
  })
}

/** The status channel's last word: a code other than zero travels as the cause `ExitCode`. */
export function exitStatus(code: number | null, signal: string | null): object {
  if (code === 0) return { metadata: {}, status: 'Success' }
  const exitCode = code ?? 128 + (signalNumbers[signal ?? ''] ?? 0)
  return {
    ...failure('NonZeroExitCode', `command terminated with non-zero exit code: exit code ${exitCode}`),
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  }
}

function failure(reason: string, message: string): object {
  return { metadata: {}, status: 'Failure', reason, message }
}

// A shell's way to say by which signal a command died.
const signalNumbers: Readonly<Record<string, number>> = constants.signals
