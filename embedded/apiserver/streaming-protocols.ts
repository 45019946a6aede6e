import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough, Writable } from 'node:stream'
import { createWebSocketStream, type WebSocket, WebSocketServer } from 'ws'
import { noticeEnd } from './paused-connection.ts'
import { type ClientStream, type SpdyStream, serveSpdy } from './spdy.ts'
import { badRequest } from './status-error.ts'

// kubectl opens exec, attach and port-forward as a WebSocket (since 1.30 and 1.31), or as SPDY/3.1
// before that.

/** A request to switch a connection to another protocol. */
export interface Upgrade {
  request: IncomingMessage
  socket: Duplex
  head: Buffer
}

/** A connection that carries the streams of one command, in either protocol. */
export interface CommandTransport {
  streams: ReadonlyMap<string, ClientStream>
  /** Resolves when the connection has ended. */
  gone: Promise<void>
  /** Closes the connection when the client has read everything. */
  close(): void
}

const closeTimeoutMs = 5_000

/**
 * Channels of the remote command protocol over WebSocket: the first byte of every message. 255
 * closes one (v5 only).
 */
const channels: Readonly<Record<string, number>> = {
  stdin: 0,
  stdout: 1,
  stderr: 2,
  error: 3,
  resize: 4,
}
const closing = 255

/** Kubernetes' protocols on a WebSocket and on a SPDY connection, the preferred one first. */
type Protocols = Readonly<Record<'websocket' | 'spdy/3.1', readonly string[]>>

const commandProtocols: Protocols = {
  websocket: ['v5.channel.k8s.io', 'v4.channel.k8s.io'],
  'spdy/3.1': ['v4.channel.k8s.io'],
}
const portForwardProtocols: Protocols = {
  websocket: ['SPDY/3.1+portforward.k8s.io'],
  'spdy/3.1': ['portforward.k8s.io'],
}

/**
 * Accepts an upgraded connection for one command, with streams of the types `stdin`, `stdout`,
 * `stderr`, `error` (the command's result) and `resize` (the sizes of a terminal, a line of JSON
 * each). Rejects with 400 for an unknown protocol.
 */
export async function acceptCommand(
  upgrade: Upgrade,
  wanted: readonly string[],
): Promise<CommandTransport> {
  const client = await accept(upgrade, commandProtocols)
  return client ? webSocketTransport(client, wanted) : spdyTransport(upgrade.socket, wanted)
}

/** Accepts an upgraded connection for port forwarding. Rejects with 400 for an unknown protocol. */
export async function acceptStreams(
  upgrade: Upgrade,
  opened: (stream: SpdyStream) => void,
): Promise<void> {
  const client = await accept(upgrade, portForwardProtocols)
  serveSpdy(client ? createWebSocketStream(client) : upgrade.socket, opened)
}

/**
 * Switches to the protocol that the client asks for: to a WebSocket, or to SPDY on the socket
 * itself.
 */
async function accept(
  { request, socket, head }: Upgrade,
  protocols: Protocols,
): Promise<WebSocket | undefined> {
  const upgrade = request.headers.upgrade?.toLowerCase()
  if (upgrade !== 'websocket' && upgrade !== 'spdy/3.1')
    throw badRequest(`unable to upgrade: protocol "${upgrade}" is not served`)
  const header = upgrade === 'websocket' ? 'sec-websocket-protocol' : 'x-stream-protocol-version'
  const offered = (request.headersDistinct[header] ?? []).flatMap((one) => one.split(/,\s*/))
  const served = protocols[upgrade]
  const protocol = served.find((one) => offered.includes(one))
  if (!protocol)
    throw badRequest(
      `unable to upgrade: the client offers the protocols "${offered.join(', ')}", this server ${served.join(', ')}`,
    )
  if (upgrade === 'websocket')
    return new Promise((resolve, reject) => {
      socket.once('close', () => reject(new Error('the client disconnected during the upgrade')))
      const webSockets = new WebSocketServer({ noServer: true, handleProtocols: () => protocol })
      webSockets.handleUpgrade(request, socket, head, resolve)
    })
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  )
  if (head.length > 0) socket.unshift(head)
  return undefined
}

function webSocketTransport(client: WebSocket, wanted: readonly string[]): CommandTransport {
  const streams = new Map(wanted.map((type) => [type, channelStream(client, channels[type] ?? 0)]))
  const inputs = new Map([...streams].map(([type, { input }]) => [channels[type], input]))
  client.on('message', (message: Buffer) => {
    const [channel, content] = [message[0], message.subarray(1)]
    // Not every client ends a size with a line feed.
    const lineOrBytes = channel === channels.resize ? `${content}\n` : content
    if (channel === closing) {
      inputs.get(content[0])?.end()
      inputs.delete(content[0])
    }
    // TCP slows down a client that sends faster than the command reads.
    else if (content.length > 0 && inputs.get(channel)?.write(lineOrBytes) === false) client.pause()
  })
  client.on('error', () => client.terminate())
  const noticed = noticeEnd(
    () => client.isPaused && client.bufferedAmount === 0,
    () => client.ping(),
  )
  client.on('close', () => {
    noticed()
    for (const input of inputs.values()) input.end()
  })
  // As in Kubernetes, an empty message on an output reports that the streams are open.
  client.send(Buffer.from([1]))
  return {
    streams,
    gone: new Promise((resolve) => client.on('close', () => resolve())),
    close() {
      // A client that waits for room in the command's input could not answer the close.
      client.removeAllListeners('message')
      client.resume()
      client.close(1000)
    },
  }
}

function channelStream(client: WebSocket, channel: number): ClientStream {
  const input = new PassThrough()
  // Several messages can arrive before a pause takes effect, so not each of them may wait for room.
  input.on('drain', () => client.resume())
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (client.readyState !== client.OPEN) done()
      else client.send(Buffer.concat([Buffer.from([channel]), chunk]), (error) => done(error))
    },
  })
  return { input, output }
}

/** Settles when the client has opened the streams of its command; rejects if it disconnects. */
async function spdyTransport(socket: Duplex, wanted: readonly string[]): Promise<CommandTransport> {
  const gone = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const streams = new Map<string, ClientStream>()
  await new Promise<void>((resolve, reject) => {
    gone.then(() => reject(new Error(`the client did not open the streams ${wanted.join(', ')}`)))
    serveSpdy(socket, (stream) => {
      streams.set(stream.headers.get('streamtype') ?? '', stream)
      if (wanted.every((type) => streams.has(type))) resolve()
    })
  })
  return {
    streams,
    gone,
    close() {
      // The client closes when it has read everything; one that doesn't is closed.
      const timer = setTimeout(() => socket.end(), closeTimeoutMs)
      gone.then(() => clearTimeout(timer))
    },
  }
}
