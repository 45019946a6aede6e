import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { shellWord } from '../../host/shell-word.ts'
import { type FifoPool, outputEnded, type PipedProcess } from './fifo-pool.ts'
import { enterNamespaces, processEnd, type ScriptPlace } from './machine.ts'

/** The output and exit code of one script. */
export interface ScriptResult {
  exitCode: number
  stdout: Buffer
  stderr: Buffer
}

/**
 * One output of a shell, in which a line that begins with a mark follows the output of each script.
 */
class MarkedOutput {
  readonly #mark: string
  #parts: Buffer[] = []

  constructor(mark: string) {
    this.#mark = mark
  }

  push(bytes: Buffer): void {
    this.#parts.push(bytes)
  }

  /**
   * Whether the mark's line has arrived. The shell writes it at once, so it is in the last two
   * parts.
   */
  get isComplete(): boolean {
    const end = Buffer.concat(this.#parts.slice(-2))
    const at = end.lastIndexOf(this.#mark)
    return at >= 0 && end.includes('\n', at)
  }

  /** The output since the last call, and the rest of the mark's line if it has arrived. */
  take(): { output: Buffer; after?: string } {
    const all = Buffer.concat(this.#parts)
    this.#parts = []
    const at = all.lastIndexOf(this.#mark)
    if (at < 0) return { output: all }
    return {
      output: all.subarray(0, at),
      after: all.toString('latin1', at + this.#mark.length).trim(),
    }
  }
}

/**
 * A shell that stays at one place of the guest and runs scripts there, one at a time, each in a
 * subshell with /dev/null as its input. A script takes 4 ms in it, and 52 ms in a new shell that
 * first enters the namespaces of a node.
 */
export class ScriptShell {
  readonly #child: ChildProcess
  readonly #mark = `\x1e${randomBytes(12).toString('hex')} `
  readonly #stdout = new MarkedOutput(this.#mark)
  readonly #stderr = new MarkedOutput(this.#mark)
  #settle: ((result: ScriptResult) => void) | undefined
  #ended = false

  /** `argv` starts the shell, which reads scripts from its standard input. */
  constructor(argv: readonly string[], env: NodeJS.ProcessEnv, pipes: FifoPool) {
    const process = pipes.spawn(argv, env, 'pipe')
    this.#child = process.child
    this.#child.on('error', () => this.#gone(127, process))
    this.#child.on('exit', (code, signal) => this.#gone(processEnd(code, signal).exitCode, process))
    for (const [pipe, marked] of [
      [process.stdout, this.#stdout],
      [process.stderr, this.#stderr],
    ] as const)
      pipe.output.on('data', (bytes: Buffer) => {
        marked.push(bytes)
        if (this.#stdout.isComplete && this.#stderr.isComplete) this.#finish()
      })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** True until the shell has ended. */
  get alive(): boolean {
    return !this.#ended
  }

  /** Runs one script; not to be called while another one runs. Resolves even if the shell ends. */
  run(script: string): Promise<ScriptResult> {
    // The script is passed to `eval` as one word, so that an unclosed quote affects only the script
    // itself.
    this.#child.stdin?.write(
      `( eval ${shellWord(script)} ) </dev/null; printf '${this.#mark}%d\\n' "$?"; printf '${this.#mark}\\n' >&2\n`,
    )
    return new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  /** Signals the shell and everything that it started. */
  kill(signal: NodeJS.Signals): void {
    if (this.#child.pid === undefined || this.#ended) return
    try {
      process.kill(-this.#child.pid, signal)
    } catch {
      // It has already ended.
    }
  }

  /** Lets an idle shell end. */
  end(): void {
    this.#child.stdin?.end()
  }

  #finish(codeOfShell?: number): void {
    const { output: stdout, after: code = codeOfShell } = this.#stdout.take()
    const result = { exitCode: Number(code), stdout, stderr: this.#stderr.take().output }
    this.#settle?.(result)
    this.#settle = undefined
  }

  /**
   * A script with a syntax error ends its shell, as does a signal; the remaining output is read
   * first.
   */
  async #gone(code: number, { stdout, stderr }: PipedProcess): Promise<void> {
    this.#ended = true
    await outputEnded([stdout, stderr])
    this.#finish(code)
  }
}

/**
 * Idle shells that are kept per place: a node's kube-proxy, its kubelet and a grader may run
 * scripts at the same time.
 */
const idleShells = 2

/** Shells that wait for scripts, by place. */
export class ScriptPool {
  readonly #pipes: FifoPool
  readonly #env: NodeJS.ProcessEnv
  readonly #idle = new Map<string, ScriptShell[]>()

  constructor(pipes: FifoPool, env: NodeJS.ProcessEnv) {
    this.#pipes = pipes
    this.#env = env
  }

  /** Runs a script in an idle shell of that place, or in a new one; the shell can be killed. */
  run(place: ScriptPlace, script: string): { shell: ScriptShell; result: Promise<ScriptResult> } {
    const key = JSON.stringify([place.pid, place.netns])
    const waiting = (this.#idle.get(key) ?? []).filter(({ alive }) => alive)
    const shell =
      waiting.pop() ?? new ScriptShell([...enterNamespaces(place), 'sh'], this.#env, this.#pipes)
    this.#idle.set(key, waiting)
    const result = shell.run(script).finally(() => {
      const others = this.#idle.get(key) ?? []
      if (shell.alive && others.length < idleShells) this.#idle.set(key, [...others, shell])
      else shell.end()
    })
    return { shell, result }
  }
}
