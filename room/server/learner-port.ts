// The port that learners reach, beyond 127.0.0.1. It takes WebSockets whose path has the learners'
// secret and serves one text; the instructor's page and its actions are on another port, of
// 127.0.0.1. Everything that comes here is hostile until it is checked.

import { once } from 'node:events'
import { createServer as createPlainServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { SAFE_HEADERS, serverEnd } from '../../host/loopback-server.ts'
import { Refusal, reasonOf } from '../../host/main.ts'
import { isSecret } from '../../web/gate.ts'
import {
  type Hello,
  type LearnerMessage,
  learnerMessageSchema,
  MESSAGE_BYTES,
  type RoomMessage,
} from '../protocol.ts'
import { type Rate, RateLimit } from './rate-limit.ts'

/** A learner's connection, as the room uses it. */
export interface LearnerLink {
  /** The address that the connection comes from. */
  address: string
  send(message: RoomMessage): void
  /** Ends the connection; the learner's machine tries again later. */
  close(reason: string): void
}

/** What is done with the connections. */
export interface LearnerHandler {
  /**
   * The first message of a connection has come. Returns what to do with the others and with its
   * end; undefined if it is refused.
   */
  arrive(
    hello: Hello,
    link: LearnerLink,
  ): { take(message: LearnerMessage): void; gone(): void } | undefined
}

export interface LearnerPortOptions {
  host: string
  port: number
  /** The learners' secret: the path of the WebSocket. */
  door: string
  /** Absent for a room without encryption. */
  tls: { cert: string; key: string } | undefined
  /** The text for a learner who opens the word in a browser. */
  text: string
}

export interface LearnerPort {
  port: number
  close(): Promise<void>
}

/** Of one connection: a guide that was offline for hours sends a hundred facts at once. */
const MESSAGES: Rate = { perSecond: 10, atOnce: 60 }
const BYTES: Rate = { perSecond: 16 * 1024, atOnce: 768 * 1024 }
/**
 * Connections of one address: a class may be behind one. Those of this machine are the instructor's
 * own.
 */
const ARRIVALS: Rate = { perSecond: 5, atOnce: 100 }
const OWN_ARRIVALS: Rate = { perSecond: 200, atOnce: 1000 }
const MOST_CONNECTIONS = 1200
const MOST_OF_ADDRESS = 150
/** Unsent bytes for a learner who does not read. */
const MOST_WAITING = 512 * 1024
const HELLO_MS = 10_000
/** Between two pings; a connection that did not answer the one before is gone. */
const PING_MS = 10_000

/** Opens the port. Throws Refusal if it can't be used. */
export async function openLearnerPort(
  options: LearnerPortOptions,
  handler: LearnerHandler,
): Promise<LearnerPort> {
  const { tls, host, port, door, text } = options
  const limits = { maxHeaderSize: 8 * 1024, headersTimeout: 10_000, requestTimeout: 10_000 }
  const server: Server = tls
    ? createTlsServer({ ...limits, ...tls, minVersion: 'TLSv1.2', handshakeTimeout: 10_000 })
    : createPlainServer(limits)
  server.maxConnections = MOST_CONNECTIONS
  const end = serverEnd(server)
  const arrivals = new Arrivals()
  server.on('connection', (socket) => arrivals.admit(socket))
  server.on('request', (request, response) => {
    const isIn = request.method === 'GET' && isSecret((request.url ?? '').slice(1), door)
    const head = {
      ...SAFE_HEADERS,
      'content-type': 'text/plain; charset=utf-8',
      connection: 'close',
    }
    response.writeHead(isIn ? 200 : 404, head).end(isIn ? text : 'Nothing here.\n')
  })
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MESSAGE_BYTES,
    perMessageDeflate: false,
  })
  server.on('upgrade', (request: IncomingMessage, socket, head) => {
    socket.on('error', () => socket.destroy())
    if (!isSecret((request.url ?? '').slice(1), door))
      return void socket.end(
        'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
      )
    sockets.handleUpgrade(request, socket, head, (link) =>
      serve(link, request.socket.remoteAddress ?? '', handler),
    )
  })
  const pings = setInterval(() => ping(sockets.clients), PING_MS)
  await listen(server, host, port)
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      clearInterval(pings)
      return end()
    },
  }
}

/** Which connections are let in, by the number and the rate of those of their address. */
class Arrivals {
  readonly #rates = new Map<string, RateLimit>()
  readonly #open = new Map<string, number>()

  admit(socket: Socket): void {
    const address = socket.remoteAddress ?? ''
    const isOwn = isLoopback(address)
    const rate = this.#rates.get(address) ?? new RateLimit(isOwn ? OWN_ARRIVALS : ARRIVALS)
    this.#rates.set(address, rate)
    const open = (this.#open.get(address) ?? 0) + 1
    if (!rate.take(1) || (!isOwn && open > MOST_OF_ADDRESS)) return void socket.destroy()
    this.#open.set(address, open)
    socket.once('close', () => this.#leave(address))
  }

  #leave(address: string): void {
    const open = (this.#open.get(address) ?? 1) - 1
    if (open > 0) return void this.#open.set(address, open)
    this.#open.delete(address)
    if (this.#rates.size > MOST_CONNECTIONS)
      for (const [one, rate] of this.#rates)
        if (rate.isFull() && !this.#open.has(one)) this.#rates.delete(one)
  }
}

/** Whether an address is one of this machine only. */
export const isLoopback = (address: string): boolean => /^(?:::ffff:)?127\.|^::1$/.test(address)

/** Links that have not answered the ping before. */
const silent = new WeakSet<WebSocket>()

function ping(links: Iterable<WebSocket>): void {
  for (const link of links) {
    if (silent.has(link)) link.terminate()
    else if (link.readyState === link.OPEN) {
      silent.add(link)
      link.ping()
    }
  }
}

function serve(socket: WebSocket, address: string, handler: LearnerHandler): void {
  const messages = new RateLimit(MESSAGES)
  const bytes = new RateLimit(BYTES)
  const link: LearnerLink = {
    address,
    send(message) {
      if (socket.bufferedAmount > MOST_WAITING) socket.terminate()
      else if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message))
    },
    close(reason) {
      socket.close(1013, reason.slice(0, 100))
      // A client that does not answer the closing of the connection.
      setTimeout(() => socket.terminate(), 1000).unref()
    },
  }
  let learner: ReturnType<LearnerHandler['arrive']>
  const deadline = setTimeout(() => socket.terminate(), HELLO_MS)
  socket.on('error', () => socket.terminate())
  socket.on('pong', () => silent.delete(socket))
  socket.on('close', () => {
    clearTimeout(deadline)
    learner?.gone()
  })
  const greet = (hello: Hello) => {
    if (learner) return link.close('a second hello')
    clearTimeout(deadline)
    learner = handler.arrive(hello, link)
    if (!learner) link.close('refused')
  }
  socket.on('message', (data: Buffer, isBinary) => {
    if (socket.readyState !== socket.OPEN) return
    if (isBinary || !messages.take(1) || !bytes.take(data.length)) return link.close('too much')
    const message = readMessage(String(data))
    if (!message) return link.close('not a message of this protocol')
    if ('hello' in message) return greet(message.hello)
    if (!learner) return link.close('no hello')
    learner.take(message)
  })
}

/** A message that fits its schema; undefined for anything else. */
function readMessage(text: string): LearnerMessage | undefined {
  try {
    return learnerMessageSchema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new Refusal(
      `The room can't listen on "${host}", port ${port} (${reasonOf(error)}): choose others, as in \`make room HOST=192.0.2.7 PORT=8443\`.`,
    )
  }
}
