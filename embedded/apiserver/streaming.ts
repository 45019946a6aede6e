import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { setTimeout } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import { OUTSIDE } from '../../host/outside.ts'
import type { GuestProcess, SpawnOptions } from '../machine/machine.ts'
import type { Api, KubeObject } from './api.ts'
import { type ExecRequest, flag, type NodeBackend, type StartCommand } from './api-call.ts'
import type { PathTarget, ResourceTarget } from './resource.ts'
import type { SpdyStream } from './spdy.ts'
import { badRequest, messageOf } from './status-error.ts'
import { fieldsAt } from './strategy.ts'
import {
  acceptCommand,
  acceptStreams,
  type CommandTransport,
  type Upgrade,
} from './streaming-protocols.ts'
import { containerOf } from './subresources.ts'

/** A request for an upgraded connection. */
export interface UpgradeCall extends Upgrade {
  api: Api
  backend: NodeBackend
  target: PathTarget
  query: URLSearchParams
}

const upgraded = ['exec', 'attach', 'portforward']

/**
 * Serves `exec`, `attach` and `portforward` of Pods and `exec` of nodes. Rejects with 400, 404 or
 * 500 before the upgrade.
 */
export async function serveUpgrade(call: UpgradeCall): Promise<void> {
  const { api, backend, target, query } = call
  if (
    target.is !== 'resource' ||
    target.name === undefined ||
    !upgraded.includes(target.subresource ?? '')
  )
    throw badRequest('this path does not support upgraded connections')
  const { name, namespace, subresource } = target
  if (namespace !== undefined || name !== OUTSIDE) api.read(target.resource.name, namespace, name)
  if (subresource === 'portforward' && namespace !== undefined) {
    const dial = backend.dial({ namespace, name })
    return acceptStreams(call, portForwarder(name, dial))
  }
  const streams = requestedStreams(query)
  const start = startOf(call, target, streams.includes('resize'))
  const transport = await acceptCommand(call, streams)
  try {
    await runSession(start, transport)
  } catch (error) {
    finish(transport, failure('InternalError', messageOf(error)))
  }
}

/** The types of the streams that a client requests. */
function requestedStreams(query: URLSearchParams): string[] {
  const tty = flag(query, 'tty')
  // A terminal carries both outputs as one.
  const streams = ['stdin', 'stdout', ...(tty ? [] : ['stderr'])].filter((stream) =>
    flag(query, stream),
  )
  if (streams.length === 0)
    throw badRequest('you must specify at least one of stdin, stdout, stderr')
  return [...streams, 'error', ...(tty ? ['resize'] : [])]
}

/**
 * The command that a client starts or attaches to. Throws 400 without a command, or for a wrong
 * container.
 */
function startOf(
  { api, backend, query }: UpgradeCall,
  target: ResourceTarget,
  tty: boolean,
): StartCommand {
  const { name = '', namespace, subresource } = target
  const containerIn = (namespace: string) =>
    containerOf(api, namespace, name, query.get('container'))
  const pod =
    namespace === undefined ? undefined : { namespace, name, container: containerIn(namespace) }
  if (subresource === 'attach' && pod) return backend.attach(pod)
  const command = query.getAll('command')
  if (command.length === 0)
    throw badRequest('you must specify at least 1 command for the container')
  const request: ExecRequest = {
    target: pod ? { kind: 'pod', ...pod } : { kind: 'node', name },
    command,
    tty,
  }
  const start = backend.exec(request)
  noteCommand(api, request)
  return start
}

const sizeDeadlineMs = 500

/**
 * Connects a command with a client until one of them ends. With a terminal it first waits half a
 * second for its size.
 */
async function runSession(start: StartCommand, transport: CommandTransport): Promise<void> {
  const [stdin, stdout, stderr, sizes] = ['stdin', 'stdout', 'stderr', 'resize'].map((type) =>
    transport.streams.get(type),
  )
  let size: SpawnOptions['size']
  let process: GuestProcess | undefined
  const sized = new Promise<void>((resolve) => {
    if (!sizes) return resolve()
    createInterface(sizes.input).on('line', (line) => {
      size = readSize(line) ?? size
      if (size) process?.resize(size.columns, size.rows)
      resolve()
    })
  })
  await Promise.race([sized, setTimeout(sizeDeadlineMs, undefined, { ref: false })])
  process = await start(size)
  if (size) process.resize(size.columns, size.rows)
  // A command may close its input early.
  process.stdin.on('error', () => {})
  if (stdin) stdin.input.pipe(process.stdin)
  else process.stdin.end()
  const status = await Promise.race([
    resultOf(process, stdout?.output, stderr?.output),
    transport.gone,
  ])
  if (status) finish(transport, status)
  else process.kill('SIGKILL')
}

/** The result of a command when it has ended and its outputs are sent. */
async function resultOf(
  { stdout, stderr, exited }: GuestProcess,
  output?: Writable,
  errors?: Writable,
) {
  const [{ exitCode }] = await Promise.all([exited, carry(stdout, output), carry(stderr, errors)])
  return exitStatus(exitCode)
}

function readSize(line: string): SpawnOptions['size'] {
  try {
    const { Width, Height }: { Width?: unknown; Height?: unknown } = JSON.parse(line)
    return typeof Width === 'number' && typeof Height === 'number'
      ? { columns: Width, rows: Height }
      : undefined
  } catch {
    return undefined
  }
}

/** Copies an output to its end; an output without a reader is discarded. */
async function carry(from: Readable, to: Writable | undefined): Promise<void> {
  if (!to) {
    from.resume()
    return
  }
  to.on('error', () => {})
  to.on('close', () => from.resume())
  from.pipe(to)
  await finished(to).catch(() => {})
}

/** Reports a command's result and closes the connection. */
function finish({ streams, close }: CommandTransport, status: object): void {
  streams.get('error')?.output.end(JSON.stringify(status))
  close()
}

/**
 * The last message on the status channel: a code other than zero is sent as the cause `ExitCode`.
 */
function exitStatus(exitCode: number): object {
  if (exitCode === 0) return { metadata: {}, status: 'Success' }
  return {
    ...failure(
      'NonZeroExitCode',
      `command terminated with non-zero exit code: exit code ${exitCode}`,
    ),
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  }
}

function failure(reason: string, message: string): object {
  return { metadata: {}, status: 'Failure', reason, message }
}

/**
 * Forwards connections: for each one the client opens a stream for errors, then one for data with
 * the same `requestid`.
 */
function portForwarder(
  pod: string,
  dial: (port: number) => Promise<GuestProcess>,
): (stream: SpdyStream) => void {
  const errors = new Map<string, SpdyStream>()
  return (stream) => {
    const id = stream.headers.get('requestid') ?? ''
    if (stream.headers.get('streamtype') === 'error') {
      errors.set(id, stream)
      return
    }
    const port = Number(stream.headers.get('port'))
    const report = errors.get(id)?.output
    errors.delete(id)
    const end = (fault = '') => {
      stream.output.end()
      report?.end(
        fault &&
          `error forwarding port ${port} to pod ${pod}: connect to 127.0.0.1:${port}: ${fault}`,
      )
    }
    forwardConnection(stream, dial(port)).then(end, (error: unknown) => end(messageOf(error)))
  }
}

/** Forwards one connection until it ends. Returns the reason if it could not be opened. */
async function forwardConnection(
  stream: SpdyStream,
  dialled: Promise<GuestProcess>,
): Promise<string | undefined> {
  const { stdin, stdout, stderr, exited } = await dialled
  stdin.on('error', () => {})
  stream.input.pipe(stdin)
  const [errors] = await Promise.all([text(stderr), carry(stdout, stream.output), exited])
  // socat names the system call that failed, then the reason.
  return errors.includes(' E connect') ? errors.trim().split(': ').at(-1) : undefined
}

/**
 * Annotation of a Node: the time of the last command on it, or in one of its Pods that can change
 * the node.
 */
const LAST_COMMAND = 'kube-service-labs/last-command'

/**
 * Records on a Node that a command runs there (`make exec`, `make shell`, `kubectl exec`), so that
 * lab 8 can distinguish a manual repair from one by kube-proxy. The project's own scripts are not
 * recorded: they use `nodes/NAME/script`.
 */
function noteCommand(api: Api, { target }: ExecRequest): void {
  const node = target.kind === 'node' ? target.name : nodeInReach(api, target)
  const annotations = { [LAST_COMMAND]: new Date().toISOString() }
  if (node && api.get('nodes', undefined, node))
    api.patch('nodes', undefined, node, { metadata: { annotations } })
}

/** The node that a Pod's command can change: the Pod shares its namespaces or is privileged. */
function nodeInReach(
  api: Api,
  { namespace, name }: { namespace: string; name: string },
): string | undefined {
  const spec = api.get<KubeObject & Pick<V1Pod, 'spec'>>('pods', namespace, name)?.spec
  const privileges = fieldsAt(
    spec,
    'containers|initContainers|ephemeralContainers[].securityContext.privileged',
  )
  const reaches = spec?.hostNetwork || spec?.hostPID || privileges.some(({ value }) => value)
  return reaches ? spec?.nodeName : undefined
}
