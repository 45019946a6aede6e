import { Writable } from 'node:stream'

/**
 * The most bytes that may be under way to the guest unread. A terminal line holds 4095 and asks its driver to pause when
 * fewer than 128 are free (n_tty.c); the UML console driver of Linux 5.12 and later pauses and never goes on, because the
 * interrupt it gives back in line_throttle is not taken again in line_unthrottle.
 */
export const windowBytes = 3500

/** The host's end of the serial line: it sends no more than the guest has room for, and goes on as the guest reads. */
export class SerialWindow extends Writable {
  private readonly line: Writable
  private room = windowBytes
  private rest: Buffer = Buffer.alloc(0)
  private sent: (() => void) | undefined

  constructor(line: Writable) {
    super()
    this.line = line
  }

  /** The guest has read so many bytes. */
  acknowledge(bytes: number): void {
    this.room += bytes
    this.advance()
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.rest = bytes
    this.sent = done
    this.advance()
  }

  private advance(): void {
    const part = this.rest.subarray(0, this.room)
    if (part.length > 0) {
      this.room -= part.length
      this.rest = this.rest.subarray(part.length)
      this.line.write(part)
    }
    const done = this.sent
    if (this.rest.length > 0 || done === undefined) return
    this.sent = undefined
    done()
  }
}
