import { closeSync, readdirSync, readFileSync } from 'node:fs'

/** O_CLOEXEC in the octal flags of proc_pid_fdinfo(5). */
const CLOSE_ON_EXEC = 0o2000000

/**
 * Closes the descriptors that this process inherited: a lock would stay held as long as it runs, and a folder's descriptor opens every file
 * of the folder. Node.js closes them for its children only up to the first unused number above 16 (libuv 1.51,
 * uv_disable_stdio_inheritance). To be called before files are opened without O_CLOEXEC; Node.js opens none.
 */
export function closeInherited(): void {
  for (const name of readdirSync('/proc/self/fd')) {
    const descriptor = Number(name)
    if (descriptor <= 2 || isOwn(descriptor)) continue
    try {
      closeSync(descriptor)
    } catch {
      // The listing's own.
    }
  }
}

function isOwn(descriptor: number): boolean {
  try {
    const [, flags = '0'] =
      /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) !== 0
  } catch {
    return true
  }
}
