import { readdirSync, readFileSync } from 'node:fs'

/** A User-Mode Linux kernel that runs on this machine: its session, and the CPUs that it may run on. */
export interface RunningKernel {
  session: string
  cpus: readonly number[]
}

/**
 * Selects the CPU for an additional kernel: of the CPUs that this process may use, the one with the fewest kernels. Undefined
 * if there is only one. A guest has one CPU, and each of its page faults and system calls switches between two processes of
 * the host (ptrace); if both run on the same CPU, no other CPU must be woken, which saves 25 to 33% of the time.
 */
export function ownCpu(allowed: readonly number[], kernels: readonly RunningKernel[]): number | undefined {
  if (allowed.length < 2) return undefined
  const taken = (cpu: number) =>
    new Set(kernels.filter(({ cpus }) => cpus.length === 1 && cpus[0] === cpu).map(({ session }) => session)).size
  // The last CPUs first, because the first one handles interrupts of the machine.
  return [...allowed].sort((one, other) => taken(one) - taken(other) || other - one)[0]
}

/** The CPUs of a list such as `0-3,8` (cpuset(7), "List format"). Empty for other text. */
export function readCpuList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part) ?? []
      if (first === '') return []
      return Array.from({ length: Math.max(0, Number(last) - Number(first) + 1) }, (_, index) => Number(first) + index)
    })
}

/** The CPUs that this process may use; empty if the system does not report them. */
export function allowedCpus(): number[] {
  try {
    return cpusOf('self')
  } catch {
    return []
  }
}

/** Every process of a User-Mode Linux kernel on this machine, also those of other clusters. */
export function runningKernels(): RunningKernel[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const [, comm = '', rest = ''] = /^\d+ \((.*)\) (.*)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
        // State, parent, process group, session (proc(5)).
        return comm === 'linux.uml' ? [{ session: rest.split(' ')[3] ?? '', cpus: cpusOf(pid) }] : []
      } catch {
        // It has ended in the meantime.
        return []
      }
    })
}

function cpusOf(pid: string): number[] {
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return readCpuList(list)
}
