// A learner's connection to the room: made again whenever it ends, and never waited for.

import { once } from 'node:events'
import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import {
  helloOf,
  keyOfFact,
  type LearnerMessage,
  MESSAGE_BYTES,
  MOST_FACTS,
  type RoomMessage,
  roomMessageSchema,
  type SentFact,
} from '../protocol.ts'
import { fingerprintOf, parseRoomWord, type RoomWord } from '../word.ts'
import type { RoomMember } from './member.ts'
import type { Outbox } from './outbox.ts'

/** Of a class that comes back all at once, the last one waits for three hundred handshakes. */
const CONNECT_MS = 15_000
/** The room pings every 10 s; without one for so long, the network is gone. */
const SILENCE_MS = 25_000
/** The pause before the next attempt doubles up to this; a class does not come back all at once. */
const FIRST_RETRY_MS = 500
const LAST_RETRY_MS = 20_000
/** How many bytes of facts go into one message. */
const FACTS_BYTES = MESSAGE_BYTES / 2

export interface LinkEvents {
  onMessage(message: RoomMessage): unknown
  onState(state: 'in' | 'away', trouble?: string): unknown
  onSent(facts: readonly SentFact[]): unknown
}

export class RoomLink {
  readonly #member: RoomMember
  readonly #outbox: Outbox
  readonly #events: LinkEvents
  #socket: WebSocket | undefined
  /** Stamps by key that were sent on this connection. */
  #inFlight = new Map<string, number>()
  #isWelcome = false
  #retryMs = FIRST_RETRY_MS
  #retry: NodeJS.Timeout | undefined
  readonly #over = new AbortController()
  #whenStored: (() => void)[] = []

  constructor(member: RoomMember, outbox: Outbox, events: LinkEvents) {
    this.#member = member
    this.#outbox = outbox
    this.#events = events
    void this.#connect()
  }

  /** Sends what waits and was not sent yet, if there is a connection. */
  flush(): void {
    if (!this.#isWelcome) return
    const facts = this.#outbox
      .waiting()
      .filter(({ stamp, fact }) => (this.#inFlight.get(keyOfFact(fact)) ?? -1) < stamp)
    for (const part of partsOf(facts)) {
      for (const { stamp, fact } of part) this.#inFlight.set(keyOfFact(fact), stamp)
      this.send({ facts: part })
      this.#events.onSent(part)
    }
  }

  /** Sends a message if there is a connection. */
  send(message: LearnerMessage): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  /**
   * Waits until everything is stored, but only while the room is connected or `connecting` is
   * allowed, and not longer than this.
   */
  async stored(mostMs: number, { connecting = false } = {}): Promise<boolean> {
    if (!this.#isWelcome && !connecting) return this.#outbox.waiting().length === 0
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, mostMs)
    })
    while (this.#outbox.waiting().length > 0) {
      const news = new Promise<void>((resolve) => this.#whenStored.push(resolve))
      if ((await Promise.race([news.then(() => 'news'), late.then(() => 'late')])) === 'late') break
    }
    clearTimeout(timer)
    return this.#outbox.waiting().length === 0
  }

  end(): void {
    this.#over.abort()
    clearTimeout(this.#retry)
    this.#socket?.terminate()
  }

  async #connect(): Promise<void> {
    try {
      const word = parseRoomWord(this.#member.word)
      const signal = AbortSignal.any([this.#over.signal, AbortSignal.timeout(CONNECT_MS)])
      this.#use(await openSocket(word, signal))
    } catch (error) {
      this.#lost(error instanceof WrongRoom ? error.message : undefined)
    }
  }

  #use(socket: WebSocket): void {
    this.#socket = socket
    this.#inFlight = new Map()
    let silence: NodeJS.Timeout | undefined
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => socket.terminate(), SILENCE_MS)
      silence.unref()
    }
    heard()
    socket.on('ping', heard)
    socket.on('error', () => socket.terminate())
    socket.on('message', (data, isBinary) => {
      heard()
      if (!isBinary) this.#take(String(data))
    })
    socket.on('close', () => {
      clearTimeout(silence)
      this.#isWelcome = false
      this.#lost()
    })
    this.send(helloOf(this.#member.learner, Date.now()))
  }

  #take(text: string): void {
    const message = readRoomMessage(text)
    if (!message) return
    const { welcome, stored = [], refused } = message
    for (const [key, stamp] of stored) this.#outbox.stored(key, stamp)
    if (stored.length > 0) for (const tell of this.#whenStored.splice(0)) tell()
    if (refused !== undefined) {
      this.#retryMs = LAST_RETRY_MS
      this.#events.onState('away', refused)
    }
    if (welcome) {
      this.#isWelcome = true
      this.#retryMs = FIRST_RETRY_MS
      this.#events.onState('in')
      this.flush()
    }
    this.#events.onMessage(message)
  }

  #lost(trouble?: string): void {
    if (this.#over.signal.aborted) return
    this.#socket = undefined
    if (trouble !== undefined || this.#retryMs < LAST_RETRY_MS)
      this.#events.onState('away', trouble)
    const wait = this.#retryMs * (0.7 + 0.6 * Math.random())
    this.#retryMs = Math.min(LAST_RETRY_MS, 2 * this.#retryMs)
    this.#retry = setTimeout(() => void this.#connect(), wait)
    // A command that has ended otherwise does not stay because of the room.
    this.#retry.unref()
  }
}

/** The server has another certificate than the one in the word: nothing was sent to it. */
class WrongRoom extends Error {}

/**
 * A WebSocket to a room whose certificate has the word's fingerprint. Not even the secret is sent
 * before that is known.
 */
async function openSocket(
  { host, port, door, fingerprint }: RoomWord,
  signal: AbortSignal,
): Promise<WebSocket> {
  const socket =
    fingerprint === undefined ? connectPlain(port, host) : insecureUntilChecked(port, host)
  try {
    await once(socket, fingerprint === undefined ? 'connect' : 'secureConnect', { signal })
    if (fingerprint !== undefined) requireFingerprint(socket as TLSSocket, fingerprint)
    const link = new WebSocket(`ws://${host.includes(':') ? `[${host}]` : host}:${port}/${door}`, {
      createConnection: () => socket,
      maxPayload: 256 * 1024,
      perMessageDeflate: false,
      handshakeTimeout: CONNECT_MS,
    })
    await once(link, 'open', { signal })
    return link
  } catch (error) {
    socket.on('error', () => undefined)
    socket.destroy()
    throw error
  }
}

/** The certificate is its own authority; instead of a chain, requireFingerprint checks it. */
const insecureUntilChecked = (port: number, host: string): Socket =>
  connectTls({ host, port, rejectUnauthorized: false, minVersion: 'TLSv1.2' })

function requireFingerprint(socket: TLSSocket, fingerprint: string): void {
  const { raw } = socket.getPeerCertificate()
  if (raw && fingerprintOf(raw) === fingerprint) return
  throw new WrongRoom(
    'Another server answers at the room’s address, and nothing was sent to it: ask your instructor for the word of the room.',
  )
}

function readRoomMessage(text: string): RoomMessage | undefined {
  try {
    return roomMessageSchema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** Facts in messages that the room accepts. */
function* partsOf(facts: readonly SentFact[]): Generator<SentFact[]> {
  let part: SentFact[] = []
  let bytes = 0
  for (const fact of facts) {
    const size = Buffer.byteLength(JSON.stringify(fact)) + 1
    if (part.length > 0 && (part.length === MOST_FACTS || bytes + size > FACTS_BYTES)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(fact)
    bytes += size
  }
  if (part.length > 0) yield part
}
