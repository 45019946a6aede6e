import { closeSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** O_CLOEXEC in the octal flags of proc_pid_fdinfo(5). */
const CLOSE_ON_EXEC = 0o2000000

/**
 * A descriptor that a new process would inherit: its number, and what it opens, as proc_pid_fd(5)
 * names it.
 */
export interface InheritedDescriptor {
  descriptor: number
  target: string
}

/**
 * The descriptors above the standard three that a process started by this one inherits, because the
 * process that started this one left them open. Node.js closes them for its children only up to the
 * first unused number above 16 (libuv 1.51, uv_disable_stdio_inheritance). Empty where there is no
 * /proc.
 */
export function leakingDescriptors(): InheritedDescriptor[] {
  return namesIn('/proc/self/fd').flatMap((name) => {
    const descriptor = Number(name)
    const target = descriptor > 2 && isInherited(descriptor) ? openedAs(descriptor) : undefined
    return target === undefined ? [] : [{ descriptor, target }]
  })
}

/**
 * Closes what the starter of this process saw as leaking: a lock would stay held as long as this
 * runs, and a folder's descriptor opens every file of the folder. What this process opened is not
 * in the list: Node.js 26 reads NODE_EXTRA_CA_CERTS in a thread, in a descriptor that looks
 * inherited, and whose number is an event loop's a moment later.
 */
export function closeInherited(descriptors: readonly InheritedDescriptor[]): void {
  for (const { descriptor, target } of descriptors)
    if (openedAs(descriptor) === target) closeSync(descriptor)
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const [, flags] =
      /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')) ?? []
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // The listing's own.
    return false
  }
}

function openedAs(descriptor: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return undefined
  }
}
