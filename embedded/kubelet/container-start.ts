import { privilegesOf, type RunningContainer, startProcess } from './container-process.ts'
import { type ContainerRoot, containerRoot } from './container-root.ts'
import { containerEnvironment, expand, serviceEnvironment } from './environment.ts'
import type { BuiltinImage, Image } from './images/registry.ts'
import type { LogBuffer } from './log-buffer.ts'
import type { ContainerContext, NodeContext } from './node-context.ts'

const firstMs = 10_000
const capMs = 300_000
/** A container that ran at least this long restarts with the first delay (twice the maximum, as in the kubelet). */
const resetMs = 2 * capMs

/**
 * The kubelet's delay before a container is started again: none after the first end, then 10 s, doubled up to five minutes,
 * counted from its end.
 */
export class RestartBackoff {
  private delayMs = 0
  private lastEnd = 0

  /** Milliseconds to wait after a run has ended; zero means start immediately. */
  next(now: number): number {
    if (this.lastEnd !== 0 && now - this.lastEnd - this.delayMs > resetMs) this.delayMs = 0
    const wait = this.lastEnd === 0 ? 0 : this.delayMs
    this.delayMs = this.delayMs === 0 ? firstMs : Math.min(this.delayMs * 2, capMs)
    this.lastEnd = now
    return wait
  }
}

/** A delay as Go prints durations: `10s`, `1m20s`, `5m0s`. */
export function goDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}

/** The data of a container before it runs. */
export interface PreparedContainer {
  image: Image
  context: ContainerContext
  env: Record<string, string>
  /** Only processes have one. */
  root?: ContainerRoot
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * Resolves environment and files of a container's run.
 * @throws ContainerConfigError if a referenced object is missing
 */
export function prepareContainer(
  { api, machine }: NodeContext,
  context: ContainerContext,
  image: Image,
  run: number,
): PreparedContainer {
  const { metadata, spec } = context.pod
  const env = {
    PATH: searchPath,
    HOSTNAME: spec.hostNetwork ? context.node : (spec.hostname ?? metadata.name),
    HOME: '/root',
    ...('start' in image ? {} : image.env),
    ...serviceEnvironment(api, metadata.namespace, spec.enableServiceLinks !== false),
    ...containerEnvironment(api, context),
  }
  if ('start' in image) return { image, context, env }
  return { image, context, env, root: containerRoot({ api, machine }, image, context, run) }
}

/** Runs a prepared container whose root is in place, in the process namespace of `target` if given. Throws StartError when its program does not exist. */
export function launchContainer(
  node: NodeContext,
  { image, context, env, root }: PreparedContainer,
  log: LogBuffer,
  target?: number,
): Promise<RunningContainer> {
  if ('start' in image || !root) return launchBuiltin(node, image as BuiltinImage, context, env, log)
  const { container, pod, link } = context
  const { command, args } = container
  const own = command?.length
  const argv = own
    ? [...command, ...(args ?? [])]
    : [...(image.entrypoint ?? []), ...(args?.length ? args : image.command)]
  const nodeProcess = node.network.placement(context.node).pid ?? 1
  return startProcess(node.machine, {
    network: link ? { netns: link.netns } : { pid: nodeProcess },
    hostname: pod.spec.hostname ?? pod.metadata.name,
    root: root.root,
    workingDir: container.workingDir ?? '/',
    argv: argv.map((word) => expand(word, env)),
    env,
    privileges: privilegesOf(container),
    privileged: container.securityContext?.privileged === true,
    log,
    serving: own || args?.length ? undefined : image.serving,
    stdin: container.stdin,
    tty: container.tty,
    nodeProcesses: pod.spec.hostPID,
    target,
  })
}

async function launchBuiltin(
  { machine, api, network }: NodeContext,
  image: BuiltinImage,
  context: ContainerContext,
  env: Record<string, string>,
  log: LogBuffer,
): Promise<RunningContainer> {
  const { link, node } = context
  const placement = link ? { netns: link.netns } : network.placement(node)
  const running = await image.start({
    ...context,
    machine,
    api,
    env,
    placement,
    log: (line) => log.write('stdout', `${line}\n`),
    stderr: (line) => log.write('stderr', `${line}\n`),
  })
  return {
    // An ordinary built-in container has no file system of its own, only the node's or the guest's.
    ...(context.container.securityContext?.privileged && { placement: { ...placement, env } }),
    exited: running.exited.then((exitCode) => ({ exitCode })),
    signal: (name) => void running.stop(name),
    synced: async () => running.synced?.(),
  }
}
