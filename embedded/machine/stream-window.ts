import type { Readable, Writable } from 'node:stream'
import { chunkBytes, writeData } from './agent-line.ts'

/**
 * The most that is under way of one output, or of one input, until its reader has taken it: each
 * has a window of its own, so that a reader that has stopped fills neither memory nor the line that
 * it shares with others. A command whose output is not read waits, as at a pipe.
 */
export const WINDOW_BYTES = 256 * 1024

/**
 * Data is split where it arrives, so that a sender may exceed its window by what it read at once.
 */
const SLACK_BYTES = WINDOW_BYTES

/** The sender's side of a window. */
export class SendWindow {
  #room = WINDOW_BYTES
  #waiting: (() => void)[] = []

  /** Counts bytes that are sent. Returns false if the sender must wait until the window is open. */
  take(bytes: number): boolean {
    this.#room -= bytes
    return this.#room > 0
  }

  /** The reader has taken this number of bytes. */
  grant(bytes: number): void {
    this.#room += bytes
    if (this.#room <= 0) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const go of waiting) go()
  }

  /** Calls back, at once or later, when the window is open. */
  whenOpen(go: () => void): void {
    if (this.#room > 0) go()
    else this.#waiting.push(go)
  }

  /** The reader is gone, so the sender no longer waits for it. */
  release(): void {
    this.grant(Number.POSITIVE_INFINITY)
  }
}

/** The reader's side of a window. */
export class ReceiveWindow {
  readonly #grant: (bytes: number) => void
  #unread = 0
  #ungranted = 0

  /** `grant` tells the sender how many bytes have been read. */
  constructor(grant: (bytes: number) => void) {
    this.#grant = grant
  }

  /** Counts received bytes. Returns false if the sender has ignored its window. */
  receive(bytes: number): boolean {
    this.#unread += bytes
    return this.#unread + this.#ungranted <= WINDOW_BYTES + SLACK_BYTES
  }

  /**
   * Counts bytes that were read; they are granted in large parts, because each grant is a frame on
   * the line.
   */
  read(bytes: number): void {
    this.#unread -= bytes
    this.#ungranted += bytes
    if (this.#ungranted < WINDOW_BYTES / 2) return
    const granted = this.#ungranted
    this.#ungranted = 0
    this.#grant(granted)
  }
}

/** A direction of a stream on the line, as its sender sees it. */
export interface Sending {
  line: Writable
  stream: number
  type: number
  window: SendWindow
}

/**
 * Sends data. Returns false if line or reader have no room for more; `more` is then called when
 * both have.
 */
export function sendData(
  { line, stream, type, window }: Sending,
  data: Uint8Array,
  more: () => void,
): boolean {
  const room = writeData(line, stream, type, data)
  if (window.take(data.length) && room) return true
  const next = () => window.whenOpen(more)
  if (room) next()
  else line.once('drain', next)
  return false
}

/** Sends data of any length; resolves when all of it is sent. */
export async function sendWhole(sending: Sending, data: Uint8Array): Promise<void> {
  for (let start = 0; start < data.length; start += chunkBytes) {
    const part = data.subarray(start, start + chunkBytes)
    await new Promise<void>((resolve) => {
      if (sendData(sending, part, resolve)) resolve()
    })
  }
}

/** Sends a stream's bytes, and stops reading it while line or reader have no room. */
export function pump(sending: Sending, source: Readable): void {
  source.on('data', (bytes: Buffer) => {
    if (!sendData(sending, bytes, () => source.resume())) source.pause()
  })
}
