import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { constants } from 'node:os'
import { plainText, shortened } from '../../host/plain-text.ts'

/** Begins the supervisor's last line on the console, which goes on with the exit status that sh(1) has for the kernel. */
export const ENDED = 'The process of the kernel ended with status '

/** A panic takes some 3 kB. Root of the guest can make its console as long as it likes. */
const TAIL_BYTES = 64 * 1024

/** Lines with which Linux, and User-Mode Linux where its memory file finds no room, tell why they give up. The first is the cause. */
const PANIC = /Kernel panic - not syncing|ran out of space|No space left on device/

/** Where this ends the guest agent, the guest's first process shuts the kernel down. */
const OUT_OF_MEMORY = /Out of memory: Killed process/

/** sh(1): a process that a signal ended has the signal's number and this. */
const BY_SIGNAL = 128

/**
 * Why a kernel ended, in words that follow "its kernel ended": the line in which its console tells the reason, else how its process
 * ended and the last line.
 * @param console all that the console printed, or the end of it
 */
export function describeKernelEnd(console: string): string {
  const lines = console
    .split('\n')
    .map((line) => line.replace(/^(<\d>)?(\[ *[\d.]+\] )?/, '').trim())
    .filter(Boolean)
  const at = lines.findLastIndex((line) => line.startsWith(ENDED))
  const status = at < 0 ? undefined : Number(lines[at]?.slice(ENDED.length))
  // The shell has its own word for a signal, in the line before: "Killed", "Aborted".
  const printed = lines.slice(0, at < 0 ? undefined : at)
  const panic = printed.find((line) => PANIC.test(line))
  if (panic !== undefined) return `with ${quoted(panic)}`
  if (status === 0) {
    const starved = printed.findLast((line) => OUT_OF_MEMORY.test(line))
    return starved ? `with ${quoted(starved)}` : 'because it was shut down from within, or its guest agent ended'
  }
  const signal = Object.entries(constants.signals).find(([, number]) => status === number + BY_SIGNAL)?.[0]
  if (signal === 'SIGKILL' || status === undefined)
    return 'with SIGKILL, from outside: something on this machine killed it, as Linux does when memory runs out'
  const last = printed.filter((line) => !/^(Aborted|Segmentation fault|Bus error)/.test(line)).at(-1)
  const how = signal ? `with ${signal}` : `with exit code ${status}`
  return last === undefined ? `${how}; its console tells nothing` : `${how}; its console ends with ${quoted(last)}`
}

const quoted = (line: string) => `"${shortened(plainText(line))}"`

/** The end of the file that a kernel's console was written to. */
export function consoleTail(file: string): string {
  const handle = openSync(file, 'r')
  try {
    const { size } = fstatSync(handle)
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES))
    return bytes.toString('utf8', 0, readSync(handle, bytes, 0, bytes.length, size - bytes.length))
  } finally {
    closeSync(handle)
  }
}
