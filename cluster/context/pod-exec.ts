import { PassThrough, Writable } from 'node:stream'
import type { V1Status } from '@kubernetes/client-node'
import { reasonOf } from '../../host/main.ts'
import type { ExecOptions, ExecResult } from '../../host/shell-word.ts'
import { Trouble } from '../../host/trouble.ts'
import { scaledMs } from '../../host/wait.ts'
import type { KubeClient } from '../kube-client.ts'
import { Exec } from '../kubernetes.ts'

const EXEC_MS = 600_000

/** A command's output is kept in memory; no check reads more than this. */
const OUTPUT_BYTES = 64 * 2 ** 20

/** A Pod could not be reached by the API's exec, or did not answer in time. */
export class PodExecError extends Trouble {
  /** The message without the Pod, as a clause. */
  readonly reason: string

  constructor(pod: string, reason: string) {
    super(`A command could not be run in Pod "${pod}": ${reason}.`)
    this.reason = reason
  }
}

/**
 * Runs a command in a Pod's first container through the API. Standard input is sent but never
 * closed: the command must know its length.
 * @throws PodExecError when it can't be started or did not end in time
 */
export async function execInPod(
  { config }: Pick<KubeClient, 'config'>,
  pod: { namespace: string; name: string; container?: string },
  command: readonly string[],
  { stdin, timeoutMs = scaledMs(EXEC_MS) }: ExecOptions = {},
): Promise<ExecResult> {
  const [stdout, stderr] = [new Collector(), new Collector()]
  const input = stdin?.length ? new PassThrough() : null
  const { namespace, name, container = '' } = pod
  let timer: NodeJS.Timeout | undefined
  let opening: ReturnType<Exec['exec']> | undefined
  let isOver = false
  try {
    const status = await new Promise<V1Status>((resolve, reject) => {
      const failed = (reason: string) => reject(new PodExecError(name, reason))
      timer = setTimeout(failed, timeoutMs, 'it did not finish in time')
      for (const output of [stdout, stderr]) output.on('error', ({ message }) => failed(message))
      const exec = new Exec(config)
      opening = exec.exec(
        namespace,
        name,
        container,
        [...command],
        stdout,
        stderr,
        input,
        false,
        resolve,
      )
      opening.then(
        (socket) => {
          // The server closes the connection after the status; a close without a status is a lost
          // connection.
          socket.addEventListener('close', () => failed('the connection was lost'))
          // A script on standard input must not run after its caller was told that it failed.
          if (!isOver) input?.write(stdin)
        },
        (error: unknown) => failed(reasonOf(error)),
      )
    })
    const exitCode = exitCodeOf(status)
    if (exitCode === undefined) throw new PodExecError(name, status.message ?? 'it was refused')
    return { exitCode, stdout: stdout.text, stderr: stderr.text }
  } finally {
    isOver = true
    clearTimeout(timer)
    // Also a connection that opens after the deadline.
    opening?.then(
      (socket) => socket.close(),
      () => {},
    )
  }
}

function exitCodeOf({ status, details }: V1Status): number | undefined {
  if (status === 'Success') return 0
  const cause = details?.causes?.find(({ reason }) => reason === 'ExitCode')
  return cause === undefined ? undefined : Number(cause.message ?? 1)
}

class Collector extends Writable {
  readonly #chunks: Buffer[] = []
  #size = 0

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    this.#size += chunk.length
    const isTooMuch = this.#size > OUTPUT_BYTES
    if (!isTooMuch) this.#chunks.push(chunk)
    done(isTooMuch ? new Error(`it printed more than ${OUTPUT_BYTES / 2 ** 20} MiB`) : undefined)
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}
