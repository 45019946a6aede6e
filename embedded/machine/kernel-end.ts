import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { constants } from 'node:os'
import { plainText, shortened } from '../../host/plain-text.ts'

/** The start of the supervisor's last line on the console, followed by the kernel's exit status in sh(1). */
export const ENDED = 'The process of the kernel ended with status '

/** A panic message has about 3 kB. The console's length is limited, because root of the guest can write to it. */
const TAIL_BYTES = 64 * 1024

/**
 * Messages with which Linux, or User-Mode Linux without space for its memory file, reports a fatal error. The first one is the
 * cause.
 */
const PANIC = /Kernel panic - not syncing|ran out of space|No space left on device/

/** If this kills the guest agent, the guest's first process shuts down the kernel. */
const OUT_OF_MEMORY = /Out of memory: Killed process/

/** sh(1): a process that a signal ended has the signal's number and this. */
const BY_SIGNAL = 128

/**
 * Why a kernel ended, as a clause after "its kernel ended": the line of its console with the reason, else the end of its process
 * and the last line.
 * @param console the output of the console, or its end
 */
export function describeKernelEnd(console: string): string {
  const lines = console
    .split('\n')
    .map((line) => line.replace(/^(<\d>)?(\[ *[\d.]+\] )?/, '').trim())
    .filter(Boolean)
  const at = lines.findLastIndex((line) => line.startsWith(ENDED))
  const status = at < 0 ? undefined : Number(lines[at]?.slice(ENDED.length))
  // The shell prints the signal's name in the line before: "Killed", "Aborted".
  const printed = lines.slice(0, at < 0 ? undefined : at)
  const panic = printed.find((line) => PANIC.test(line))
  if (panic !== undefined) return `with ${quoted(panic)}`
  if (status === 0) {
    const starved = printed.findLast((line) => OUT_OF_MEMORY.test(line))
    return starved ? `with ${quoted(starved)}` : 'because it was shut down from within, or its guest agent ended'
  }
  const signal = Object.entries(constants.signals).find(([, number]) => status === number + BY_SIGNAL)?.[0]
  if (signal === 'SIGKILL' || status === undefined)
    return 'with SIGKILL: another process on this machine killed it, or Linux because memory ran out'
  const last = printed.filter((line) => !/^(Aborted|Segmentation fault|Bus error)/.test(line)).at(-1)
  const how = signal ? `with ${signal}` : `with exit code ${status}`
  return last === undefined ? `${how}; its console is empty` : `${how}; its console ends with ${quoted(last)}`
}

const quoted = (line: string) => `"${shortened(plainText(line))}"`

/** The end of the file with a kernel's console output. */
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
