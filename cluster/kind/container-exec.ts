import { $ } from '../../host/command.ts'
import type { ExecOptions, ExecResult } from '../../host/shell-word.ts'
import { scaledMs } from '../../host/wait.ts'
import { ClusterNotReady } from '../driver.ts'
import type { EngineName } from './engine.ts'
import { inspect, STATE } from './node-containers.ts'

/** Default timeout of a command on a node. */
const execDeadlineMs = 600_000

/** The container of a node, or of the machine outside. */
interface ContainerPlace {
  engine: EngineName
  container: string
  /** Its name in messages. */
  node: string
}

/**
 * Runs a command in a container, as `docker exec` does.
 * @throws Error when it did not end in time, the engine refused it, or the container does not run
 */
export async function execInContainer(
  { engine, container, node }: ContainerPlace,
  command: readonly string[],
  options: ExecOptions,
): Promise<ExecResult> {
  const timeout = options.timeoutMs ?? scaledMs(execDeadlineMs)
  const input = options.stdin === undefined ? undefined : Buffer.from(options.stdin)
  const run = $({
    quiet: true,
    nothrow: true,
    timeout,
    ...(input ? { input } : { stdio: ['ignore', 'pipe', 'pipe'] }),
  })
  const running = run`${engine} exec ${input ? ['-i'] : []} ${container} ${[...command]}`
  // A command that ends without reading its input breaks the pipe; its exit code decides.
  if (input) running.stdin.on('error', () => {})
  const { exitCode, stdout, stderr, signal } = await running
  if (signal) {
    const what = (command.at(-1) ?? '').trim().split('\n', 1)[0]
    throw new Error(`"${what}" on ${node} did not end within ${timeout / 1000} s`)
  }
  if (exitCode !== 0) await requireRan({ engine, container, node }, stderr)
  return { exitCode: exitCode ?? 1, stdout, stderr }
}

/**
 * Throws for a command that failed because its container does not run, or because the engine
 * refused it.
 */
async function requireRan({ engine, container, node }: ContainerPlace, stderr: string) {
  const isRefused =
    /^Error response from daemon|^Error: no container|^Cannot connect to the Docker/m.test(stderr)
  const state = (await inspect(engine, STATE, [container])).get(container)
  // Docker names a stopped container by its ID, and a command that it interrupts has not failed by
  // itself.
  if (state !== undefined && state !== 'running')
    throw new ClusterNotReady(
      `${node} is ${state}, so ${isRefused ? 'no command runs there' : 'the command was interrupted'}; \`make up\` starts it again`,
    )
  if (isRefused) throw new Error(stderr.trim())
}
