import { constants } from 'node:os'
import type { GuestProcess, Machine, Placement, Privileges } from '../machine/machine.ts'
import { GUEST_CONFINE, privilegeOptions } from '../machine/placement.ts'
import { expand } from './environment.ts'
import type { ProcessImage } from './images/registry.ts'
import type { LogBuffer } from './log-buffer.ts'
import type { ContainerContext, NodeContext } from './node-context.ts'
import type { Container } from './objects.ts'

/** One run of a container. */
export interface RunningContainer {
  /** The container's namespaces and privileges, for exec and probes; absent if no programs can be run in it. */
  readonly placement?: Placement
  readonly exited: Promise<{ exitCode: number; signal?: number }>
  signal(name: string): void
  /** Resolves when it has no pending changes; only programs on the host report it. */
  synced?(): Promise<void>
  /** The process for `attach`; programs on the host have none. */
  readonly process?: Pick<GuestProcess, 'stdin' | 'resize'>
}

/** The command of a container can't be started; the message is the runtime's. */
class StartError extends Error {}

/** The runtime's message for a command that does not exist. */
export const notFound = ([program = '']: readonly string[]) =>
  `unable to start container process: exec: "${program}": executable file not found in $PATH`

/** What a container's process needs beside its specification. */
export interface ProcessStart {
  image: ProcessImage
  /** The container's root, mounted in the guest. */
  root: string
  env: Readonly<Record<string, string>>
  log: LogBuffer
  /** Join the process namespace of this container (`unshare`'s process id), as ephemeral containers with a target do. */
  target?: number | undefined
}

// The first line of output is printed once all namespaces exist, so that commands can run in them; it is not logged.
const begun = '\u0001begun'
const missing = '\u0001missing'
const setup = `cd "$1" 2>/dev/null || { mkdir -p "$1" && cd "$1"; }
shift
command -v -- "$1" >/dev/null || { echo '${missing}'; exit 128; }
echo '${begun}'
exec "$@"`

// nsenter enters the process namespace of the target's first process, and forks: its only child is the new container.
const joinProcesses = 'read -r child _ </proc/$0/task/$0/children; exec nsenter --target="$child" --pid "$@"'

function command(
  { network }: NodeContext,
  { pod, container, node, link }: ContainerContext,
  { root, target }: ProcessStart,
  argv: readonly string[],
): string[] {
  const { spec, metadata } = pod
  const { tty, workingDir = '/', securityContext } = container
  const joined = target !== undefined
  // With hostNetwork, network and host name are those of the node's process.
  const enter = link
    ? [`--net=/run/netns/${link.netns}`]
    : [`--target=${network.placement(node).pid ?? 1}`, '--net', '--uts']
  return [
    ...(joined ? ['sh', '-c', joinProcesses, String(target)] : []),
    ...['/usr/bin/nsenter', ...enter, '/usr/bin/unshare', ...(link ? ['--uts'] : []), '--mount', '--ipc'],
    ...(spec.hostPID || joined ? [] : ['--pid']),
    ...(joined ? [] : ['--fork', '--kill-child']),
    ...['--propagation', 'slave', GUEST_CONFINE, ...(tty ? ['--terminal'] : [])],
    ...(link ? ['--hostname', spec.hostname ?? metadata.name] : []),
    ...['--root', root, ...(securityContext?.privileged ? [] : ['--container'])],
    ...[...privilegeOptions(privilegesOf(container)), '--', '/bin/sh', '-c', setup, 'sh', workingDir, ...argv],
  ]
}

/** The parent of the container's first process; with a terminal, it is the child of `script`. */
async function containerParent(machine: Machine, { pid }: GuestProcess, tty: boolean): Promise<number> {
  if (!tty) return pid
  const { stdout } = await machine.script(`cat /proc/${pid}/task/${pid}/children`)
  return Number(stdout.trim().split(' ')[0])
}

/** The time to wait for the output that shows that a program serves; after it, the container counts as running. */
const servingDeadlineMs = 5000

/**
 * Starts a container's process in its namespaces and resolves when it serves.
 * @throws StartError if the program does not exist
 */
export async function startProcess(
  node: NodeContext,
  context: ContainerContext,
  start: ProcessStart,
): Promise<RunningContainer> {
  const { machine } = node
  const { image, env, log } = start
  const { command: own = [], args = [], stdin, tty = false } = context.container
  const words = own.length ? [...own, ...args] : [...(image.entrypoint ?? []), ...(args.length ? args : image.command)]
  const argv = words.map((word) => expand(word, env))
  const serving = own.length || args.length ? undefined : image.serving
  const process = await machine.spawn(
    command(node, context, start, argv),
    { env: { ...env } },
    { noInput: !stdin && !tty, inNamespace: true, tty },
  )
  const decoder = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  let first: string | undefined = ''
  let tail = ''
  let serves: () => void = () => {}
  const served = new Promise<void>((resolve) => {
    serves = resolve
  })
  const started = new Promise<void>((resolve, reject) => {
    const take = (stream: 'stdout' | 'stderr', text: string) => {
      if (text === '') return
      log.write(stream, text)
      if (!serving) return
      tail = (tail + text).slice(-4096)
      if (serving.test(tail)) serves()
    }
    process.stderr.on('data', (bytes: Buffer) => take('stderr', decoder.stderr.decode(bytes, { stream: true })))
    process.stdout.on('data', (bytes: Buffer) => {
      const text = decoder.stdout.decode(bytes, { stream: true })
      if (first === undefined) return take('stdout', text)
      first += text
      const end = first.indexOf('\n')
      if (end < 0) return
      if (first.startsWith(missing)) {
        const why =
          'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed'
        reject(new StartError(`${why}: ${notFound(argv)}: unknown`))
      } else resolve()
      const rest = first.slice(end + 1)
      first = undefined
      take('stdout', rest)
    })
    void process.exited.then(() => reject(new StartError('the container ended while it was set up')))
  })
  const exited = process.exited.then(({ code, signal }) => {
    serves()
    const number = signal ? constants.signals[signal as NodeJS.Signals] : undefined
    return { exitCode: code ?? 128 + (number ?? 9), ...(number !== undefined && { signal: number }) }
  })
  await started
  const parent = await containerParent(machine, process, tty)
  if (serving) {
    const timer = setTimeout(serves, servingDeadlineMs)
    await served
    clearTimeout(timer)
  }
  return {
    placement: { childOf: parent, env: { ...env }, privileges: privilegesOf(context.container) },
    exited,
    process,
    signal(name) {
      if (parent === process.pid) process.kill(name)
      else
        machine
          .script(`kill -s ${name.replace(/^SIG/, '')} $(cat /proc/${parent}/task/${parent}/children)`)
          .catch(() => {})
    },
  }
}

/** Names by number (include/uapi/linux/capability.h), without CAP_. */
const CAPABILITIES = [
  ...['CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'SETPCAP'],
  ...['LINUX_IMMUTABLE', 'NET_BIND_SERVICE', 'NET_BROADCAST', 'NET_ADMIN', 'NET_RAW', 'IPC_LOCK', 'IPC_OWNER'],
  ...['SYS_MODULE', 'SYS_RAWIO', 'SYS_CHROOT', 'SYS_PTRACE', 'SYS_PACCT', 'SYS_ADMIN', 'SYS_BOOT', 'SYS_NICE'],
  ...['SYS_RESOURCE', 'SYS_TIME', 'SYS_TTY_CONFIG', 'MKNOD', 'LEASE', 'AUDIT_WRITE', 'AUDIT_CONTROL', 'SETFCAP'],
  ...['MAC_OVERRIDE', 'MAC_ADMIN', 'SYSLOG', 'WAKE_ALARM', 'BLOCK_SUSPEND', 'AUDIT_READ', 'PERFMON', 'BPF'],
  'CHECKPOINT_RESTORE',
]

/**
 * containerd's (pkg/oci, defaultUnixCaps) without MKNOD: no cgroup restricts the devices that a container creates.
 */
const DEFAULT = [
  ...['CHOWN', 'DAC_OVERRIDE', 'FSETID', 'FOWNER', 'NET_RAW', 'SETGID', 'SETUID', 'SETFCAP', 'SETPCAP'],
  ...['NET_BIND_SERVICE', 'SYS_CHROOT', 'KILL', 'AUDIT_WRITE'],
]

/** The privileges that a container's securityContext leaves to root; as in containerd, unknown names are ignored. */
function privilegesOf({ securityContext }: Container): Privileges {
  if (securityContext?.privileged) return {}
  const { add = [], drop = [] } = securityContext?.capabilities ?? {}
  const names = (list: readonly string[]) => list.map((name) => name.toUpperCase().replace(/^CAP_/, ''))
  const [added, dropped] = [names(add), names(drop)]
  const base = dropped.includes('ALL') ? [] : added.includes('ALL') ? CAPABILITIES : DEFAULT
  const left = CAPABILITIES.filter((name) => (base.includes(name) || added.includes(name)) && !dropped.includes(name))
  const mask = left.reduce((bits, name) => bits | (1n << BigInt(CAPABILITIES.indexOf(name))), 0n)
  return { capabilities: mask.toString(16), noNewPrivileges: securityContext?.allowPrivilegeEscalation === false }
}
