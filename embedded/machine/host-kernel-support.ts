import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { offlineRoot } from '../../host/layout.ts'
import { namespacesFail } from './host-kernel.ts'

/** Why this machine's own kernel can't be used for the guest, and how to change that if it is possible. */
export interface HostKernelTrouble {
  detail: string
  fix?: string
}

/**
 * Settings that forbid namespaces to an ordinary user: a file of /proc/sys, the value that forbids, and the
 * value that allows.
 */
const settings = [
  [
    'kernel/apparmor_restrict_unprivileged_userns',
    1,
    0,
    'AppArmor forbids ordinary users user namespaces (Ubuntu since 23.10)',
  ],
  ['kernel/unprivileged_userns_clone', 0, 1, 'this kernel forbids ordinary users user namespaces'],
  ['user/max_user_namespaces', 0, 15_000, 'user namespaces are disabled'],
] as const

/**
 * The setting that forbids namespaces to this user, and the command that changes it. `sysctls` is /proc/sys,
 * or a test folder.
 */
export function forbiddingSetting(sysctls = '/proc/sys'): HostKernelTrouble | undefined {
  const found = settings.find(([name, forbids]) => {
    const file = join(sysctls, name)
    return existsSync(file) && Number(readFileSync(file, 'utf8')) === forbids
  })
  if (!found) return undefined
  const [name, , allows, detail] = found
  const key = name.replace('/', '.')
  return { detail: `${detail}: ${key}`, fix: `sudo sysctl ${key}=${allows}` }
}

/** Tests all steps that set up the guest's root, in 0.1 s; undefined if they work. */
export function hostKernelTrouble(sysctls?: string): HostKernelTrouble | undefined {
  const reason = namespacesFail(offlineRoot)
  if (reason === undefined) return undefined
  const isFiltered = /^Seccomp:\s+2$/m.test(readFileSync('/proc/self/status', 'utf8'))
  if (isFiltered && /^unshare: .*not permitted/.test(reason))
    return { detail: 'a seccomp filter, as container engines set one, forbids user namespaces' }
  return forbiddingSetting(sysctls) ?? { detail: `namespaces of an ordinary user can't be set up: ${reason}` }
}
