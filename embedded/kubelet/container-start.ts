import { type RunningContainer, startProcess } from './container-process.ts'
import { type ContainerRoot, containerRoot } from './container-root.ts'
import { containerEnvironment, serviceEnvironment } from './environment.ts'
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

/** A container that can be started once its root is in place. */
export interface PreparedContainer {
  /** Only processes have one. */
  root?: ContainerRoot
  /** Runs it, in the process namespace of `target` if given. Throws StartError when its program does not exist. */
  launch(log: LogBuffer, target?: number): Promise<RunningContainer>
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * Resolves environment and files of a container's run.
 * @throws ContainerConfigError if a referenced object is missing
 */
export function prepareContainer(
  node: NodeContext,
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
    ...serviceEnvironment(node.api, metadata.namespace, spec.enableServiceLinks !== false),
    ...containerEnvironment(node.api, context),
  }
  if ('start' in image) return { launch: (log) => launchBuiltin(node, image, context, env, log) }
  const root = containerRoot(node, image, context, run)
  return { root, launch: (log, target) => startProcess(node, context, { image, root: root.root, env, log, target }) }
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
    ...{ ...context, machine, api, env, placement },
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
