import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ownTemporaryFolder } from '../../host/own-temporary-folder.ts'
import { freeMegabytes, SystemTrouble } from '../../host/system-trouble.ts'

const MB = 1024 * 1024

/** The memory of a guest on User-Mode Linux. */
export const GUEST_MEGABYTES = 1024

/**
 * The limits of a process (getrlimit(2), /proc/PID/limits) that a cluster's kernel and daemon need
 * (measured with Debian's 6.12 and Node 20).
 */
const limitsFor = (megabytes: number) => [
  {
    line: 'Max file size',
    unit: MB,
    what: 'MB in a file',
    needed: megabytes,
    raise: 'ulimit -f unlimited',
  },
  {
    line: 'Max address space',
    unit: MB,
    what: 'MB of address space',
    needed: 4096,
    raise: 'ulimit -v unlimited',
  },
  { line: 'Max open files', unit: 1, what: 'open files', needed: 256, raise: 'ulimit -n 1024' },
  {
    line: 'Max processes',
    unit: 1,
    what: 'processes of a user',
    needed: 256,
    raise: 'ulimit -u 1024',
  },
]

/**
 * @throws SystemTrouble that names every limit of this process that such a kernel exceeds, and the
 * command that raises it
 */
export function requireLimits(
  megabytes: number,
  limits = readFileSync('/proc/self/limits', 'utf8'),
): void {
  const faults = limitsFor(megabytes).flatMap(({ line, unit, what, needed, raise }) => {
    const soft = new RegExp(`^${line}\\s+(\\d+)`, 'm').exec(limits)?.[1]
    const found = Math.floor(Number(soft ?? Number.POSITIVE_INFINITY) / unit)
    return found < needed
      ? [`${found} ${what} are allowed, and ${needed} are needed: \`${raise}\``]
      : []
  })
  if (faults.length > 0)
    throw new SystemTrouble(
      `The embedded kernel can't run here: ${faults.join('; ')} raises it, then run the command again.`,
    )
}

/** A folder that may hold the guest's memory, and why it can't. */
export interface MemoryPlace {
  folder: string
  trouble?: string
}

/**
 * Whether files of a folder can be mapped as programs: User-Mode Linux maps its memory so, which
 * `noexec` forbids (mount(8)).
 */
function canMapPrograms(folder: string): boolean {
  try {
    const place = ownTemporaryFolder('kube-service-labs-memory-probe', folder)
    try {
      const file = join(place, 'program')
      writeFileSync(file, '#!/bin/sh\n', { mode: 0o700 })
      return spawnSync(file, { stdio: 'ignore' }).status === 0
    } finally {
      rmSync(place, { recursive: true, force: true })
    }
  } catch {
    return false
  }
}

/**
 * The folders for the guest's memory, the first without trouble is used; the others are not tried.
 */
export function memoryPlaces(
  megabytes: number,
  folders = ['/dev/shm', tmpdir()],
): readonly MemoryPlace[] {
  const places: MemoryPlace[] = []
  for (const folder of new Set(folders)) {
    if (!existsSync(folder)) continue
    const free = freeMegabytes(folder)
    const trouble =
      free < megabytes
        ? `"${folder}" has ${free} MB free`
        : canMapPrograms(folder)
          ? undefined
          : `"${folder}" is mounted noexec or can't be written`
    places.push({ folder, ...(trouble && { trouble }) })
    if (!trouble) break
  }
  return places
}

/**
 * A folder for the guest's memory. A page that can't be written kills the kernel, and memory that
 * can't be executed too.
 * @throws SystemTrouble if there is none
 */
export function memoryFolder(megabytes: number, folders?: string[]): string {
  const places = memoryPlaces(megabytes, folders)
  const found = places.find(({ trouble }) => trouble === undefined)
  if (found) return found.folder
  const reasons = places.map(({ trouble }) => trouble).join(' and ')
  throw new SystemTrouble(
    `The embedded kernel needs ${megabytes} MB of room for its memory, in a folder where programs can be run, and ${reasons || 'there is no temporary folder'}: make room, or name another folder with TMPDIR=, and run the command again.`,
  )
}

/**
 * The CPUs that a process may run on, of which /proc has a list such as `0-3,8` (cpuset(7), "List
 * format").
 */
function cpusOf(pid: string): number[] {
  const [, list = ''] =
    /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return list.split(',').flatMap((part) => {
    const [first = 0, last = first] = part.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}

/**
 * Selects the CPU for a User-Mode Linux kernel: of those that this process may use, the one with
 * the fewest processes of such kernels. Undefined if there is only one. A guest has one CPU, and
 * each of its page faults and system calls switches between two processes of the host (ptrace): lab
 * 2 takes 13.6 s of CPU time if they may run on two CPUs, and 8 s on one.
 */
export function ownCpu(): number | undefined {
  const taken: number[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      const cpus = readFileSync(`/proc/${pid}/comm`, 'utf8') === 'linux.uml\n' ? cpusOf(pid) : []
      if (cpus.length === 1) taken.push(...cpus)
    } catch {
      // It has ended in the meantime.
    }
  const allowed = cpusOf('self')
  const load = (cpu: number) => taken.filter((one) => one === cpu).length
  // The last CPUs first, because the first one handles interrupts of the machine.
  return allowed.length < 2
    ? undefined
    : allowed.sort((one, other) => load(one) - load(other) || other - one)[0]
}
