import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import type { V1Status } from '@kubernetes/client-node'
import { reasonOf } from '../host/main.ts'
import { rawOutput } from '../host/output.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'

// Channels of the Kubernetes exec protocol v5 (one leading byte a message).
const channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const

export interface ExecEndpoint {
  port: number
  token: string
  ca: Buffer
}

/** Handlers of one exec; `opened` is called once input may be sent. */
interface ExecHandlers {
  stdout(bytes: Buffer): void
  stderr(bytes: Buffer): void
  opened(socket: NodeInput): void
}

interface NodeInput {
  write(bytes: Uint8Array): void
  end(): void
  resize(columns: number, rows: number): void
}

/**
 * Exit code in a Status of the error channel (metav1.Status, cause ExitCode). Throws the Status'
 * message on any other failure.
 */
function exitCodeOf(outcome: string): number {
  const status: V1Status = JSON.parse(outcome)
  if (status.status === 'Success') return 0
  const cause = status.details?.causes?.find(({ reason }) => reason === 'ExitCode')
  if (cause?.message === undefined)
    throw new Error(status.message ?? 'the command could not be started')
  return Number(cause.message)
}

/**
 * Runs a command through the API server's `nodes/NAME/exec`, the subresource that only the embedded
 * cluster has.
 */
async function connectExec(
  endpoint: ExecEndpoint,
  node: string,
  command: readonly string[],
  tty: boolean,
  handlers: ExecHandlers,
  timeoutMs?: number,
): Promise<number> {
  const query = new URLSearchParams({
    stdin: 'true',
    stdout: 'true',
    stderr: String(!tty),
    tty: String(tty),
  })
  for (const word of command) query.append('command', word)
  const url = `wss://127.0.0.1:${endpoint.port}/api/v1/nodes/${encodeURIComponent(node)}/exec?${query}`
  // Most commands never need it, and loading it takes a tenth of a second.
  const { WebSocket } = await import('ws')
  const socket = new WebSocket(url, ['v5.channel.k8s.io'], {
    ca: endpoint.ca,
    headers: { authorization: `Bearer ${endpoint.token}` },
    perMessageDeflate: false,
    maxPayload: 0,
  })
  const send = (to: number, bytes: Uint8Array | string) =>
    socket.send(
      Buffer.concat([Buffer.from([to]), typeof bytes === 'string' ? Buffer.from(bytes) : bytes]),
    )
  let outcome: string | undefined
  socket.on('message', (data: Buffer) => {
    const bytes = data.subarray(1)
    if (data[0] === channel.stdout) handlers.stdout(bytes)
    else if (data[0] === channel.stderr) handlers.stderr(bytes)
    else if (data[0] === channel.error) outcome = bytes.toString()
  })
  // A later one than those that are waited for.
  socket.on('error', () => {})
  const late = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
  const until = (event: 'open' | 'close') => once(socket, event, late && { signal: late })
  try {
    await until('open')
    handlers.opened({
      write: (bytes) => send(channel.stdin, bytes),
      end: () => send(channel.close, Buffer.from([channel.stdin])),
      resize: (columns, rows) =>
        send(channel.resize, JSON.stringify({ Width: columns, Height: rows })),
    })
    await until('close')
  } catch (error) {
    socket.terminate()
    if (late?.aborted)
      throw new Error(
        `"${command.join(' ')}" on ${node} did not end within ${Number(timeoutMs) / 1000} s`,
      )
    throw new Error(`the API server refused to run a command on "${node}" (${reasonOf(error)})`)
  }
  if (outcome === undefined)
    throw new Error(`the connection to ${node} ended before the command did`)
  return exitCodeOf(outcome)
}

/**
 * Runs a command to its end. Rejects when the node can't be reached, the program does not exist
 * there, or time is up.
 */
export async function execOnNode(
  endpoint: ExecEndpoint,
  node: string,
  command: readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  const handlers: ExecHandlers = {
    stdout: (bytes) => stdout.push(bytes),
    stderr: (bytes) => stderr.push(bytes),
    opened(input) {
      if (options.stdin) input.write(Buffer.from(options.stdin))
      input.end()
    },
  }
  const exitCode = await connectExec(endpoint, node, command, false, handlers, options.timeoutMs)
  return {
    exitCode,
    stdout: Buffer.concat(stdout).toString(),
    stderr: Buffer.concat(stderr).toString(),
  }
}

/**
 * Joins this terminal with a command on a node (a pseudo terminal there when this is one); resolves
 * to its exit code.
 */
export async function shellOnNode(
  endpoint: ExecEndpoint,
  node: string,
  command: readonly string[],
): Promise<number> {
  const { stdin, stdout, stderr } = process
  // The shell there edits lines and moves the cursor: its output is for the terminal as it is.
  const [shown, complaints] = [rawOutput(stdout), rawOutput(stderr)]
  const tty = stdin.isTTY === true && stdout.isTTY === true
  let onResize = () => {}
  if (tty) stdin.setRawMode(true)
  try {
    return await connectExec(endpoint, node, command, tty, {
      stdout: (bytes) => shown.write(bytes),
      stderr: (bytes) => complaints.write(bytes),
      opened(input) {
        onResize = () => input.resize(stdout.columns, stdout.rows)
        if (tty) onResize()
        stdout.on('resize', onResize)
        stdin.on('data', (bytes: Buffer) => input.write(bytes))
        stdin.on('end', () => input.end())
        stdin.resume()
      },
    })
  } finally {
    stdout.off('resize', onResize)
    stdin.removeAllListeners('data')
    stdin.pause()
    if (tty) stdin.setRawMode(false)
  }
}

/**
 * Connections to the API server that stay open between two scripts, but keep no process from
 * ending. Closed long before the server closes an idle one (90 s): a script that is sent at that
 * moment gets no answer.
 */
const agent = new Agent({ keepAlive: true, timeout: 30_000 })

/** There was no answer in time. */
class LateAnswer extends Error {}

/**
 * Asks the API server for a subresource of a node. Rejects when the node can't be reached or time
 * is up.
 */
async function askNode(
  { port, token, ca }: ExecEndpoint,
  node: string,
  subresource: 'script' | 'synced',
  timeoutMs: number,
  body = '',
  signal?: AbortSignal,
): Promise<string> {
  const late = AbortSignal.timeout(timeoutMs)
  const over = signal ? AbortSignal.any([late, signal]) : late
  const path = `/api/v1/nodes/${encodeURIComponent(node)}/${subresource}`
  const method = subresource === 'script' ? 'POST' : 'GET'
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' }
  try {
    const asked = request({
      host: '127.0.0.1',
      port,
      path,
      method,
      ca,
      headers,
      agent,
      signal: over,
    })
    asked.end(body)
    const [response]: IncomingMessage[] = await once(asked, 'response')
    const answer = response && (await text(response))
    if (answer !== undefined && response?.statusCode === 200) return answer
    throw new Error(
      `the API server refused "${subresource}" on "${node}" (HTTP ${response?.statusCode})`,
    )
  } catch (error) {
    throw late.aborted
      ? new LateAnswer(`"${subresource}" on ${node} did not end within ${timeoutMs / 1000} s`)
      : error
  }
}

/**
 * Runs a shell script through the API server's `nodes/NAME/script`. Rejects when the node can't be
 * reached, time is up or `signal` aborts.
 */
export async function scriptOnNode(
  endpoint: ExecEndpoint,
  node: string,
  script: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<ExecResult> {
  return JSON.parse(
    await askNode(endpoint, node, 'script', timeoutMs, script, signal),
  ) as ExecResult
}

/**
 * Resolves to true when a node's kube-proxy has nothing left to program, to false when time is up.
 * Rejects when the node can't be asked.
 */
export async function syncedOnNode(
  endpoint: ExecEndpoint,
  node: string,
  timeoutMs: number,
): Promise<boolean> {
  try {
    await askNode(endpoint, node, 'synced', timeoutMs)
    return true
  } catch (error) {
    if (error instanceof LateAnswer) return false
    throw error
  }
}
