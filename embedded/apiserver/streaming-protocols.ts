import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough, type Readable, Writable } from 'node:stream'
import { createWebSocketStream, type RawData, type WebSocket, WebSocketServer } from 'ws'
import { SpdyConnection, type SpdyStream } from './spdy.ts'
import { badRequest } from './status-error.ts'

// kubectl opens exec, attach and port-forward as a WebSocket (since 1.30 and 1.31), or as SPDY/3.1 before that.

/** The streams of a command that the client requests. */
export interface StreamOptions {
  stdin: boolean
  stdout: boolean
  stderr: boolean
  tty: boolean
}

/** A connection that carries the streams of one command, in either protocol. A stream that the client did not request is absent. */
export interface CommandTransport {
  /** Input from the client to the command. */
  stdin?: Readable | undefined
  stdout?: Writable | undefined
  stderr?: Writable | undefined
  /** The sizes of the client's terminal, a line of JSON each: `{"Width":80,"Height":24}`. */
  sizes?: Readable | undefined
  onGone(listener: () => void): void
  /** Reports the command's result and closes the connection. */
  finish(status: object): void
}

const streamsTimeoutMs = 30_000
const closeTimeoutMs = 5_000

/** Channels of the remote command protocol: the first byte of every message. 255 closes one (v5 only). */
const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 }

const webSocketProtocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
const spdyProtocol = 'v4.channel.k8s.io'
const portForwardProtocol = 'portforward.k8s.io'
const tunnelProtocol = `SPDY/3.1+${portForwardProtocol}`

const sockets = new WebSocketServer({
  noServer: true,
  handleProtocols: (offered) =>
    [...webSocketProtocols, tunnelProtocol].find((protocol) => offered.has(protocol)) ?? false,
})

/** Accepts an upgraded connection for one command. Rejects with 400 for an unknown protocol. */
export async function acceptCommand(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: StreamOptions,
): Promise<CommandTransport> {
  if (isWebSocket(request)) return webSocketTransport(await acceptWebSocket(request, socket, head), options)
  switchToSpdy(request, socket, head, spdyProtocol)
  return spdyTransport(socket, options)
}

/**
 * Accepts an upgraded connection for port forwarding; `opened` is called for each stream. Rejects with 400 for
 * an unknown protocol.
 */
export async function acceptStreams(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  opened: (stream: SpdyStream) => void,
): Promise<void> {
  if (isWebSocket(request)) {
    const client = await acceptWebSocket(request, socket, head)
    new SpdyConnection(createWebSocketStream(client), opened)
  } else {
    switchToSpdy(request, socket, head, portForwardProtocol)
    new SpdyConnection(socket, opened)
  }
}

function isWebSocket(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === 'websocket'
}

function acceptWebSocket(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    socket.once('close', () => reject(new Error('the client disconnected during the upgrade')))
    sockets.handleUpgrade(request, socket, head, resolve)
  })
}

function switchToSpdy(request: IncomingMessage, socket: Duplex, head: Buffer, protocol: string): void {
  const { upgrade } = request.headers
  if (upgrade?.toLowerCase() !== 'spdy/3.1') {
    throw badRequest(`unable to upgrade: protocol "${upgrade}" is not served`)
  }
  const offered = (request.headersDistinct['x-stream-protocol-version'] ?? []).flatMap((one) => one.split(/,\s*/))
  if (!offered.includes(protocol)) {
    throw badRequest(
      `unable to upgrade: the client offers the protocols "${offered.join(', ')}", this server ${protocol}`,
    )
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  )
  if (head.length > 0) socket.unshift(head)
}

function webSocketTransport(client: WebSocket, options: StreamOptions): CommandTransport {
  const [stdin, sizes] = [new PassThrough(), new PassThrough()]
  // Several messages can arrive before a pause takes effect, so not each of them may wait for room.
  stdin.on('drain', () => client.resume())
  client.on('message', (data: RawData) => {
    const message = bytesOf(data)
    const content = message.subarray(1)
    switch (message[0]) {
      case channel.stdin:
        // TCP slows down a client that sends faster than the command reads.
        if (content.length > 0 && !stdin.write(content)) client.pause()
        break
      case channel.resize:
        sizes.write(`${content}\n`)
        break
      case channel.close:
        if (content[0] === channel.stdin) stdin.end()
        break
    }
  })
  client.on('error', () => client.terminate())
  client.on('close', () => stdin.end())
  // As in Kubernetes, an empty message on an output reports that the streams are open.
  client.send(Buffer.from([channel.stdout]))
  const output = (number: number) =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (client.readyState !== client.OPEN) done()
        else client.send(Buffer.concat([Buffer.from([number]), chunk]), (error) => done(error))
      },
    })
  return {
    stdin: options.stdin ? stdin : undefined,
    stdout: options.stdout ? output(channel.stdout) : undefined,
    stderr: options.stderr ? output(channel.stderr) : undefined,
    sizes,
    onGone: (listener) => client.on('close', listener),
    finish(status) {
      // A client that waits for room in the command's input could not answer the close.
      client.removeAllListeners('message')
      client.resume()
      client.send(Buffer.concat([Buffer.from([channel.status]), Buffer.from(JSON.stringify(status))]))
      client.close(1000)
    },
  }
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}

/**
 * Settles when the client has opened the streams of its command; rejects if that takes too long or the client
 * disconnects.
 */
async function spdyTransport(socket: Duplex, options: StreamOptions): Promise<CommandTransport> {
  const wanted = ['error', ...(['stdin', 'stdout', 'stderr'] as const).filter((stream) => options[stream])]
  if (options.tty) wanted.push('resize')
  const streams = new Map<string, SpdyStream>()
  await new Promise<void>((resolve, reject) => {
    const fail = () => {
      socket.destroy()
      reject(new Error(`the client did not open the streams ${wanted.join(', ')}`))
    }
    const timer = setTimeout(fail, streamsTimeoutMs)
    socket.once('close', fail)
    new SpdyConnection(socket, (stream) => {
      streams.set(stream.headers.get('streamtype') ?? '', stream)
      if (!wanted.every((type) => streams.has(type))) return
      clearTimeout(timer)
      socket.off('close', fail)
      resolve()
    })
  })
  return {
    stdin: streams.get('stdin')?.input,
    stdout: streams.get('stdout')?.output,
    stderr: streams.get('stderr')?.output,
    sizes: streams.get('resize')?.input,
    onGone: (listener) => {
      socket.on('close', listener)
    },
    finish(status) {
      streams.get('error')?.output.end(JSON.stringify(status))
      // The client closes when it has read everything; one that doesn't is closed.
      const timer = setTimeout(() => socket.end(), closeTimeoutMs)
      socket.once('close', () => clearTimeout(timer))
    },
  }
}
