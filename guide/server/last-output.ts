import { readSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { IPty } from '@lydell/node-pty'

/** What node-pty's terminals have on Unix beside what its types tell. */
interface UnixPty {
  readonly fd: number
  readonly _socket: Readable
}

/**
 * A terminal holds up to 64 KiB (tty_buffer_init in the kernel); of a process that goes on
 * printing, no more is read.
 */
const MOST_READS = 32

/**
 * Shows what the last processes of a pseudo terminal printed, before its socket is closed with
 * something unread. That happens where libuv (1.46, `uv__stream_io`) takes a hang-up for the end
 * because a read before it gave fewer bytes than were asked for, though the kernel gives at most
 * 4095 of them at a time, and where node-pty (1.1, `DESTROY_SOCKET_TIMEOUT_MS`) gives up 200 ms
 * after the exit: on a busy machine its timer runs before the next read.
 */
export function showLastOutput(pty: IPty, show: (text: string) => void): void {
  const { fd, _socket: socket } = pty as unknown as UnixPty
  const destroy = socket.destroy.bind(socket)
  let isRead = false
  socket.destroy = (error) => {
    if (!isRead) {
      isRead = true
      // What the socket holds goes to its listeners.
      socket.read()
      const decoder = new StringDecoder('utf8')
      const bytes = Buffer.alloc(4096)
      for (let reads = 0; reads < MOST_READS; reads++) {
        const count = readNext(fd, bytes)
        if (count === 0) break
        show(decoder.write(bytes.subarray(0, count)))
      }
    }
    return destroy(error)
  }
}

/**
 * The number of bytes that were read; 0 at the end and where nothing waits, which Linux tells by
 * errors (EIO, EAGAIN).
 */
function readNext(fd: number, bytes: Buffer): number {
  try {
    return readSync(fd, bytes)
  } catch {
    return 0
  }
}
