import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { programText } from '../../host/program-text.ts'
import {
  GUEST_CONFINE,
  type GuestProcess,
  type Placement,
  type Privileges,
  type ProcessEnd,
  privilegeOptions,
} from '../machine/machine.ts'
import { runInGuest } from '../network/topology.ts'
import { containerRoot } from './container-root.ts'
import { expand, hostnameOf } from './environment.ts'
import type { BuiltinContainer, BuiltinImage, Image, ProcessImage } from './images/registry.ts'
import type { LogBuffer } from './log-buffer.ts'
import type { Container, ContainerContext, NodeContext } from './objects.ts'

/** One run of a container. */
export interface RunningContainer {
  /**
   * The container's namespaces and privileges, for exec and probes; absent if no programs can be
   * run in it.
   */
  readonly placement?: Placement
  /**
   * The command in place of one that is typed, for programs that are not in the container's file
   * system.
   */
  readonly programs?: BuiltinContainer['programs']
  readonly exited: Promise<ProcessEnd>
  /** Asks its program to end, with the signal of its image. */
  stop(): void
  kill(): void
  /** Resolves when it has no pending changes; only programs on the host report it. */
  synced?(): Promise<void>
  /** The process for `attach`; programs on the host have none. */
  readonly process?: Pick<GuestProcess, 'stdin' | 'resize'>
}

/** What a run of a container needs beside its specification. */
interface ContainerStart {
  image: Image
  /** The number of the run. */
  run: number
  env: Record<string, string>
  log: LogBuffer
  /**
   * The waiting process of another container, whose process namespace is used, as ephemeral
   * containers do.
   */
  target?: number | undefined
}

/**
 * Makes a container's file system and starts its program. Resolves when it serves; rejects with the
 * runtime's message.
 */
export async function startContainer(
  node: NodeContext,
  context: ContainerContext,
  start: ContainerStart,
): Promise<RunningContainer> {
  const { image, run } = start
  if ('start' in image) return startBuiltin(node, context, image, start)
  const { root, fstab, files } = containerRoot(node, image, context, run)
  await node.machine.write(files)
  await runInGuest(node.machine, `mount -a -T ${fstab}`)
  return startProcess(node, context, image, root, start)
}

async function startBuiltin(
  { machine, api, network }: NodeContext,
  context: ContainerContext,
  image: BuiltinImage,
  { env, log }: ContainerStart,
): Promise<RunningContainer> {
  const { link, node } = context
  const placement = link ? { netns: link.netns } : network.placement(node)
  const running = await image.start({
    ...context,
    machine,
    api,
    placement,
    log: (line) => log.write('stdout', `${line}\n`),
    stderr: (line) => log.write('stderr', `${line}\n`),
  })
  return {
    // An ordinary built-in container has no file system of its own, only the node's or the guest's.
    ...(context.container.securityContext?.privileged && { placement: { ...placement, env } }),
    programs: running.programs,
    exited: running.exited.then((exitCode) => ({ exitCode })),
    stop: () => void running.stop(),
    kill: () => void running.stop(),
    synced: async () => running.synced?.(),
  }
}

/** The runtime's message for a command that does not exist. */
export const commandNotFound = ([program = '']: readonly string[]) =>
  `unable to start container process: exec: "${program}": executable file not found in $PATH`

// The first line of output is printed once all namespaces exist, so that commands can run in them;
// it is not logged.
const begun = '\u0001begun'
const missing = '\u0001missing'
const setup = programText('embedded/kubelet/container-start.sh')

/** The command that starts `argv` in the namespaces and the root of a container. */
function command(
  { network }: NodeContext,
  context: ContainerContext,
  root: string,
  target: number | undefined,
  argv: readonly string[],
): string[] {
  const { pod, container, node, link } = context
  const { tty, workingDir = '/', securityContext } = container
  // With hostNetwork, network and host name are those of the node's process.
  const ofNode = `/proc/${network.placement(node).pid}/ns`
  const joined = [
    ...(link ? [`/run/netns/${link.netns}`] : [`${ofNode}/net`, `${ofNode}/uts`]),
    ...(target === undefined ? [] : [`/proc/${target}/ns/pid_for_children`]),
  ]
  const own = [
    'mount',
    'ipc',
    ...(link ? ['uts'] : []),
    ...(pod.spec.hostPID || target !== undefined ? [] : ['pid']),
  ]
  return [
    GUEST_CONFINE,
    ...joined.flatMap((file) => ['--join', file]),
    ...own.flatMap((kind) => ['--new', kind]),
    ...(tty ? ['--terminal'] : []),
    ...(link ? ['--hostname', hostnameOf(context)] : []),
    '--root',
    root,
    ...(securityContext?.privileged ? [] : ['--container']),
    ...privilegeOptions(privilegesOf(container)),
    '--',
    '/bin/sh',
    '-c',
    setup,
    'sh',
    begun,
    missing,
    workingDir,
    ...argv,
  ]
}

/**
 * The time to wait for the output that shows that a program serves; after it, the container counts
 * as running.
 */
const servingDeadlineMs = 5000

/**
 * The end of a process whose outputs are being read, once they are read to their end: the frames of
 * its last output and of its end may arrive together, and what waits for the end runs before the
 * output is passed on.
 */
export async function endAfterOutput({
  stdout,
  stderr,
  exited,
}: Pick<GuestProcess, 'stdout' | 'stderr' | 'exited'>): Promise<ProcessEnd> {
  const [end] = await Promise.all([exited, finished(stdout), finished(stderr)])
  return end
}

async function startProcess(
  node: NodeContext,
  context: ContainerContext,
  image: ProcessImage,
  root: string,
  { env, log, target }: ContainerStart,
): Promise<RunningContainer> {
  const { command: own = [], args = [], stdin, tty = false } = context.container
  const commandLine = own.length ? [...own, ...args] : args.length ? args : image.command
  const argv = commandLine.map((word) => expand(word, env))
  const process = await node.machine.spawn(
    command(node, context, root, target, argv),
    { env },
    { noInput: !stdin && !tty, container: true, tty },
  )
  const serving = own.length || args.length ? undefined : image.serving
  const served = new Promise<void>((resolve) => {
    if (serving)
      log.read({ chunk: (_stream, text) => serving.test(text) && resolve(), end: resolve })
  })
  const take = (stream: 'stdout' | 'stderr', text: string) => {
    if (text !== '') log.write(stream, text)
  }
  process.stderr.setEncoding('utf8').on('data', (text: string) => take('stderr', text))
  const firstLine = new Promise<string>((resolve) => {
    let first: string | undefined
    process.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (first !== undefined) return take('stdout', text)
      first = text.split('\n')[0] ?? ''
      resolve(first)
      take('stdout', text.slice(first.length + 1))
    })
  })
  const exited = endAfterOutput(process)
  const state = (await Promise.race([firstLine, exited.then(() => 'ended')])).trim()
  if (state === 'ended') throw new Error('the container ended while it was set up')
  if (state === missing) {
    const why =
      'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed'
    throw new Error(`${why}: ${commandNotFound(argv)}: unknown`)
  }
  const placement: Placement = {
    env,
    privileges: privilegesOf(context.container),
    childOf: process.pid,
  }
  if (tty) {
    // With a terminal, the parent of the container's first process is the child of `script`.
    const { stdout } = await node.machine.script(
      `cat /proc/${process.pid}/task/${process.pid}/children`,
    )
    placement.childOf = Number(stdout.trim().split(' ')[0])
  }
  if (serving)
    await Promise.race([served, exited, delay(servingDeadlineMs, undefined, { ref: false })])
  const stop = () => process.kill(image.stopSignal ?? 'SIGTERM')
  return { placement, exited, process, stop, kill: () => process.kill('SIGKILL') }
}

/** Names by number (include/uapi/linux/capability.h), without CAP_. */
const CAPABILITIES = [
  'CHOWN',
  'DAC_OVERRIDE',
  'DAC_READ_SEARCH',
  'FOWNER',
  'FSETID',
  'KILL',
  'SETGID',
  'SETUID',
  'SETPCAP',
  'LINUX_IMMUTABLE',
  'NET_BIND_SERVICE',
  'NET_BROADCAST',
  'NET_ADMIN',
  'NET_RAW',
  'IPC_LOCK',
  'IPC_OWNER',
  'SYS_MODULE',
  'SYS_RAWIO',
  'SYS_CHROOT',
  'SYS_PTRACE',
  'SYS_PACCT',
  'SYS_ADMIN',
  'SYS_BOOT',
  'SYS_NICE',
  'SYS_RESOURCE',
  'SYS_TIME',
  'SYS_TTY_CONFIG',
  'MKNOD',
  'LEASE',
  'AUDIT_WRITE',
  'AUDIT_CONTROL',
  'SETFCAP',
  'MAC_OVERRIDE',
  'MAC_ADMIN',
  'SYSLOG',
  'WAKE_ALARM',
  'BLOCK_SUSPEND',
  'AUDIT_READ',
  'PERFMON',
  'BPF',
  'CHECKPOINT_RESTORE',
]

/**
 * containerd's (pkg/oci, defaultUnixCaps) without MKNOD: no cgroup restricts the devices that a
 * container creates.
 */
const DEFAULT = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FSETID',
  'FOWNER',
  'NET_RAW',
  'SETGID',
  'SETUID',
  'SETFCAP',
  'SETPCAP',
  'NET_BIND_SERVICE',
  'SYS_CHROOT',
  'KILL',
  'AUDIT_WRITE',
]

/**
 * The privileges that a container's securityContext leaves to root; as in containerd, unknown names
 * are ignored.
 */
function privilegesOf({ securityContext }: Container): Privileges {
  if (securityContext?.privileged) return {}
  const { add = [], drop = [] } = securityContext?.capabilities ?? {}
  const names = (list: readonly string[]) =>
    list.map((name) => name.toUpperCase().replace(/^CAP_/, ''))
  const [added, dropped] = [names(add), names(drop)]
  const base = dropped.includes('ALL') ? [] : added.includes('ALL') ? CAPABILITIES : DEFAULT
  const left = CAPABILITIES.filter(
    (name) => (base.includes(name) || added.includes(name)) && !dropped.includes(name),
  )
  const mask = left.reduce((bits, name) => bits | (1n << BigInt(CAPABILITIES.indexOf(name))), 0n)
  return {
    capabilities: mask.toString(16),
    noNewPrivileges: securityContext?.allowPrivilegeEscalation === false,
  }
}
