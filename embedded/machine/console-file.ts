import { closeSync, openSync, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

/** What a kernel prints while it boots and runs its labs takes a few kB. */
const headBytes = 1024 * 1024
/** A panic message has about 3 kB. */
const tailBytes = 64 * 1024

/**
 * Writes a kernel's console to a file: its first MB and its last 64 kB. The guest gets a pipe of
 * this process instead of the file, because whatever root of the guest prints would fill the disk,
 * and through /proc/1/fd it could open and change the file itself.
 * @returns resolves when the console is at its end and all of it is in the file
 */
export async function recordConsole(console: Readable, file: string): Promise<void> {
  const handle = openSync(file, 'w', 0o600)
  const write = (bytes: Uint8Array | string) => {
    try {
      writeSync(handle, Buffer.from(bytes))
    } catch {
      // A full disk ends no kernel.
    }
  }
  let room = headBytes
  let leftOut = 0
  let tail = Buffer.alloc(0)
  console.on('data', (bytes: Buffer) => {
    const head = bytes.subarray(0, room)
    room -= head.length
    if (head.length > 0) write(head)
    const joined = Buffer.concat([tail, bytes.subarray(head.length)])
    tail = Buffer.from(joined.subarray(-tailBytes))
    leftOut += joined.length - tail.length
  })
  await finished(console).catch(() => {})
  if (leftOut > 0) write(`\n[${leftOut} bytes were left out]\n`)
  write(tail)
  closeSync(handle)
}
