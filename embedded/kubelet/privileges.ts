import type { Privileges } from '../machine/machine.ts'
import type { Container } from './objects.ts'

/** Names by number (include/uapi/linux/capability.h), without CAP_. */
const CAPABILITIES = [
  ...['CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'SETPCAP'],
  ...['LINUX_IMMUTABLE', 'NET_BIND_SERVICE', 'NET_BROADCAST', 'NET_ADMIN', 'NET_RAW', 'IPC_LOCK', 'IPC_OWNER'],
  ...['SYS_MODULE', 'SYS_RAWIO', 'SYS_CHROOT', 'SYS_PTRACE', 'SYS_PACCT', 'SYS_ADMIN', 'SYS_BOOT', 'SYS_NICE'],
  ...['SYS_RESOURCE', 'SYS_TIME', 'SYS_TTY_CONFIG', 'MKNOD', 'LEASE', 'AUDIT_WRITE', 'AUDIT_CONTROL', 'SETFCAP'],
  ...['MAC_OVERRIDE', 'MAC_ADMIN', 'SYSLOG', 'WAKE_ALARM', 'BLOCK_SUSPEND', 'AUDIT_READ', 'PERFMON', 'BPF'],
  'CHECKPOINT_RESTORE',
]

/** containerd's (pkg/oci, defaultUnixCaps) without MKNOD: no cgroup keeps a container from the devices that it makes. */
const DEFAULT = [
  ...['CHOWN', 'DAC_OVERRIDE', 'FSETID', 'FOWNER', 'NET_RAW', 'SETGID', 'SETUID', 'SETFCAP', 'SETPCAP'],
  ...['NET_BIND_SERVICE', 'SYS_CHROOT', 'KILL', 'AUDIT_WRITE'],
]

/** What a container's securityContext leaves of root's rights, for all that runs in it; as containerd reads it, unknown names are ignored. */
export function privilegesOf({ securityContext }: Container): Privileges {
  if (securityContext?.privileged) return {}
  const { add = [], drop = [] } = securityContext?.capabilities ?? {}
  const names = (list: readonly string[]) => list.map((name) => name.toUpperCase().replace(/^CAP_/, ''))
  const [added, dropped] = [names(add), names(drop)]
  const base = dropped.includes('ALL') ? [] : added.includes('ALL') ? CAPABILITIES : DEFAULT
  const left = CAPABILITIES.filter((name) => (base.includes(name) || added.includes(name)) && !dropped.includes(name))
  const mask = left.reduce((bits, name) => bits | (1n << BigInt(CAPABILITIES.indexOf(name))), 0n)
  return { capabilities: mask.toString(16), noNewPrivileges: securityContext?.allowPrivilegeEscalation === false }
}
