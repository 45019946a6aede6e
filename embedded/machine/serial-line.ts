import type { Writable } from 'node:stream'

/** Senders must wait if more than this is queued. */
const fullBytes = 256 * 1024

/** The line to the guest, with flow control by acknowledgements of its agent. */
export class SerialLine {
  private readonly output: Writable
  private readonly windowBytes: number
  private queue: Uint8Array[] = []
  private queued = 0
  private unacknowledged = 0
  private waiting: (() => void)[] = []

  constructor(output: Writable, windowBytes: number) {
    this.output = output
    this.windowBytes = windowBytes
  }

  /**
   * Sends bytes, in order, as soon as the guest can receive them. Returns false if the caller must wait for
   * `drained`.
   */
  write(bytes: Uint8Array): boolean {
    this.queue.push(bytes)
    this.queued += bytes.length
    this.flush()
    return this.queued < fullBytes
  }

  /** Calls back once when more can be sent. */
  drained(callback: () => void): void {
    if (this.queued < fullBytes) callback()
    else this.waiting.push(callback)
  }

  /** Handles an acknowledgement: the agent has read this number of bytes. */
  acknowledge(bytes: number): void {
    this.unacknowledged -= bytes
    this.flush()
    if (this.queued >= fullBytes) return
    for (const callback of this.waiting.splice(0)) callback()
  }

  private flush(): void {
    for (let room = this.windowBytes - this.unacknowledged; room > 0 && this.queue[0]; ) {
      const head = this.queue[0]
      const part = head.subarray(0, room)
      if (part.length === head.length) this.queue.shift()
      else this.queue[0] = head.subarray(part.length)
      this.output.write(part)
      this.queued -= part.length
      this.unacknowledged += part.length
      room -= part.length
    }
  }
}
