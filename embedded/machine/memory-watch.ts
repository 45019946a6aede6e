import { readFileSync } from 'node:fs'

const MB = 1024
const intervalMs = 500
/**
 * What the machine keeps for its other programs, unless it is small: a file system in memory fills
 * at 800 MB/s.
 */
const reserve = { megabytes: 768, share: 0.08 }

function memoryKilobytes(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN)
}

/**
 * The reason to end a guest that shares this machine's memory, which no limit of an ordinary user
 * restricts: file systems in memory.
 * @param meminfo the text of /proc/meminfo
 * @returns a clause after "the kernel"; undefined while enough is left
 */
export function memoryShortage(meminfo: string): string | undefined {
  const [available, total] = ['MemAvailable', 'MemTotal'].map((name) =>
    memoryKilobytes(meminfo, name),
  )
  if (available === undefined || total === undefined) return undefined
  if (!(available < Math.min(reserve.megabytes * MB, reserve.share * total))) return undefined
  return `was ended because this machine had only ${Math.floor(available / MB)} MB of memory left`
}

/**
 * Calls `short` once with the reason when the machine's memory runs out; never where little was
 * left from the beginning.
 */
export function watchMemory(
  short: (reason: string) => void,
  read = () => readFileSync('/proc/meminfo', 'utf8'),
): void {
  if (memoryShortage(read()) !== undefined) return
  const timer = setInterval(() => {
    const reason = memoryShortage(read())
    if (reason === undefined) return
    clearInterval(timer)
    short(reason)
  }, intervalMs)
  timer.unref()
}
