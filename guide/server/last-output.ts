import { readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import type { IPty } from '@lydell/node-pty'

/** What node-pty's terminals have on Unix beside what its types tell. */
interface UnixPty {
  readonly fd: number
  once(event: 'end', listener: () => void): void
}

/**
 * Shows what the last process of a pseudo terminal printed before it closed it. libuv (1.46, `uv__stream_io`) takes the hang-up for
 * the end where a read before it gave fewer bytes than were asked for, though the kernel gives at most 4095 of them at a time, and
 * may hold more. Then the socket ends, and its descriptor is open until its listeners have returned.
 */
export function showLastOutput(pty: IPty, show: (text: string) => void): void {
  const unix = pty as unknown as UnixPty
  unix.once('end', () => {
    const decoder = new StringDecoder('utf8')
    const bytes = Buffer.alloc(4096)
    for (let count = readNext(unix.fd, bytes); count > 0; count = readNext(unix.fd, bytes))
      show(decoder.write(bytes.subarray(0, count)))
  })
}

/** The number of bytes that were read; 0 at the end, which Linux tells by an error (EIO). */
function readNext(fd: number, bytes: Buffer): number {
  try {
    return readSync(fd, bytes)
  } catch {
    return 0
  }
}
