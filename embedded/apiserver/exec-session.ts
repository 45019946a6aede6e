import { constants } from 'node:os'
import { PassThrough, pipeline, type Readable, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { OUTSIDE } from '../../host/outside.ts'
import type { GuestProcess } from '../machine/machine.ts'
import { isObject, type Json } from './json.ts'
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

/** A connection that carries one command's streams, in any protocol. */
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
  const outside = namespace === undefined && name === OUTSIDE
  if (!outside && !store.get(target.resource.stored, namespace, name))
    throw notFound(resourceNamed(target.resource.stored), name)
  if (namespace === undefined) return { request: { target: { kind: 'node', name }, command, tty }, options }
  const container = containerOf(store, namespace, name, query.get('container') || undefined)
  return { request: { target: { kind: 'pod', namespace, name, container }, command, tty }, options }
}

/** A running command whose outputs are being kept until a client takes them. */
export interface HeldProcess {
  process: GuestProcess
  stdout: PassThrough
  stderr: PassThrough
}

/** Starts to read a command's outputs at once: it may have ended before the client's connection is ready. */
export function hold(process: GuestProcess): HeldProcess {
  return { process, stdout: kept(process.stdout), stderr: kept(process.stderr) }
}

function kept(from: Readable): PassThrough {
  const to = new PassThrough()
  // A failing output ends like any other; how the command ended says the rest.
  pipeline(from, to, () => to.end())
  to.on('error', () => {})
  return to
}

/** Joins a command's streams with the client's until the command ends or the client goes. */
export async function runSession({ process, stdout, stderr }: HeldProcess, transport: ExecTransport): Promise<void> {
  let ended = false
  transport.onResize((columns, rows) => process.resize(columns, rows))
  transport.onGone(() => {
    if (!ended) process.kill('SIGKILL')
  })
  // A command that closes its input early is no error.
  process.stdin.on('error', () => {})
  if (transport.stdin) transport.stdin.pipe(process.stdin)
  else process.stdin.end()
  const outputs = [carry(stdout, transport.stdout), carry(stderr, transport.stderr)]
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

/** Carries an output to its end; an output without a reader is read and discarded. */
async function carry(from: PassThrough, to: Writable | undefined): Promise<void> {
  if (to) {
    to.on('error', () => {})
    to.on('close', () => from.resume())
    from.pipe(to)
    await finished(to).catch(() => {})
  } else from.resume()
}

/** A terminal's size as clients send it, `{"Width":80,"Height":24}`; undefined for anything else. */
export function parseSize(text: string): [columns: number, rows: number] | undefined {
  try {
    const size: Json = JSON.parse(text)
    if (isObject(size) && typeof size.Width === 'number' && typeof size.Height === 'number') {
      return [size.Width, size.Height]
    }
  } catch {
    // A message that is no size changes nothing.
  }
  return undefined
}

/** The status channel's last word: a code other than zero travels as the cause `ExitCode`. */
function exitStatus(code: number | null, signal: string | null): object {
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
