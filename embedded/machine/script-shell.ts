import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync } from 'node:fs'
import { shellWord } from '../../host/shell-word.ts'
import { afterOutput, type FifoPool, type Pipe } from './fifo-pool.ts'

/** What comes of one script. */
export interface ScriptListener {
  stdout(bytes: Buffer): void
  stderr(bytes: Buffer): void
  /** The script is over, and all that it wrote has been given out. `alive` is false when its shell is gone with it. */
  exit(code: number, alive: boolean): void
}

/** One output of a shell in which a mark ends what belongs to a script. */
class MarkedOutput {
  private rest: Buffer = Buffer.alloc(0)
  private readonly mark: Buffer

  constructor(mark: string) {
    this.mark = Buffer.from(mark)
  }

  /** The bytes that are the script's for sure, and what follows the mark up to the end of its line once that is there. */
  push(bytes: Buffer): { data: Buffer; after: string | undefined } {
    const all = this.rest.length > 0 ? Buffer.concat([this.rest, bytes]) : bytes
    const at = all.indexOf(this.mark)
    if (at < 0) {
      const sure = Math.max(0, all.length - this.mark.length + 1)
      this.rest = all.subarray(sure)
      return { data: all.subarray(0, sure), after: undefined }
    }
    const end = all.indexOf('\n', at)
    this.rest = end < 0 ? all.subarray(at) : Buffer.alloc(0)
    const after = end < 0 ? undefined : all.subarray(at + this.mark.length, end).toString()
    return { data: all.subarray(0, at), after }
  }

  /** What was held back because a mark might have begun there. */
  flush(): Buffer {
    const { rest } = this
    this.rest = Buffer.alloc(0)
    return rest
  }
}

/**
 * A shell that stays at one place of the guest and runs scripts there, one at a time, each in a subshell with
 * /dev/null as its input. Starting a shell from here costs 50 ms and entering namespaces as much again; a fork of a small shell costs 6.
 */
export class ScriptShell {
  private readonly child: ChildProcess
  private readonly mark = `\x1e${randomBytes(12).toString('hex')} `
  private readonly stdout = new MarkedOutput(this.mark)
  private readonly stderr = new MarkedOutput(this.mark)
  private listener: ScriptListener | undefined
  private code: number | undefined
  private errorsDone = false
  private ended = false

  /** `argv` starts the shell; it reads what to run from its standard input. */
  constructor(argv: readonly string[], env: NodeJS.ProcessEnv, pipes: FifoPool) {
    const [program = 'sh', ...rest] = argv
    const [stdout, stderr] = [pipes.output(), pipes.output()]
    this.child = spawn(program, rest, {
      cwd: '/',
      env,
      detached: true,
      stdio: ['pipe', stdout.theirs, stderr.theirs],
    })
    for (const pipe of [stdout, stderr]) closeSync(pipe.theirs)
    this.child.stdin?.on('error', () => {})
    this.child.on('error', () => this.gone(127))
    this.child.on('exit', (code) => this.gone(code ?? 137, [stdout, stderr]))
    stdout.ours.on('data', (bytes: Buffer) => {
      const { data, after } = this.stdout.push(bytes)
      if (data.length > 0) this.listener?.stdout(data)
      if (after !== undefined) this.code = Number(after)
      this.settle()
    })
    stderr.ours.on('data', (bytes: Buffer) => {
      const { data, after } = this.stderr.push(bytes)
      if (data.length > 0) this.listener?.stderr(data)
      if (after !== undefined) this.errorsDone = true
      this.settle()
    })
  }

  /** True until the shell has ended. */
  get alive(): boolean {
    return !this.ended
  }

  /** Runs one script; not to be called while another one runs. */
  run(script: string, listener: ScriptListener): void {
    this.listener = listener
    this.code = undefined
    this.errorsDone = false
    // As a word to be evaluated, a script that ends in the middle of a quotation takes nothing but itself along.
    this.child.stdin?.write(
      `( eval ${shellWord(script)} ) </dev/null; printf '${this.mark}%d\\n' "$?"; printf '${this.mark}\\n' >&2\n`,
    )
  }

  /** Signals the shell and everything that it started. */
  kill(signal: NodeJS.Signals): void {
    if (this.child.pid === undefined || this.ended) return
    try {
      process.kill(-this.child.pid, signal)
    } catch {
      // Gone already.
    }
  }

  /** Lets an idle shell end. */
  end(): void {
    this.child.stdin?.end()
  }

  private settle(): void {
    if (this.code === undefined || !this.errorsDone) return
    const { listener, code } = this
    this.listener = undefined
    listener?.exit(code, true)
  }

  /** A script with a syntax error ends its shell, as does a signal; what the outputs still hold comes first. */
  private gone(code: number, outputs: readonly Pipe[] = []): void {
    this.ended = true
    afterOutput(outputs, () => {
      const { listener } = this
      this.listener = undefined
      listener?.stdout(this.stdout.flush())
      listener?.stderr(this.stderr.flush())
      listener?.exit(this.code ?? code, false)
    })
  }
}
