import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync } from 'node:fs'
import { shellWord } from '../../host/shell-word.ts'
import { afterOutput, type FifoPool, type Pipe } from './fifo-pool.ts'
import type { ScriptPlace } from './machine.ts'
import { enterNamespaces } from './placement.ts'

/** Receives the output and the result of one script. */
export interface ScriptListener {
  stdout(bytes: Buffer): void
  stderr(bytes: Buffer): void
  /** The script has ended and all its output has been emitted. */
  exit(code: number): void
}

/** One output stream of a shell, in which a mark follows the output of each script. */
class MarkedOutput {
  private rest: Buffer = Buffer.alloc(0)
  private readonly mark: Buffer

  constructor(mark: string) {
    this.mark = Buffer.from(mark)
  }

  /** The bytes that certainly belong to the script, and the rest of the mark's line when it is complete. */
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

  /** The bytes that were held back because they may be the start of a mark. */
  flush(): Buffer {
    const { rest } = this
    this.rest = Buffer.alloc(0)
    return rest
  }
}

/**
 * A shell that stays at one place of the guest and runs scripts there, one at a time, each in a subshell with /dev/null as its input.
 * Starting a shell takes 50 ms and entering namespaces another 50 ms; a fork of a small shell takes 6 ms.
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

  /** `argv` starts the shell, which reads scripts from its standard input. */
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
    // The script is passed to `eval` as one word, so that an unclosed quote affects only the script itself.
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
      // It has already ended.
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
    listener?.exit(code)
  }

  /** A script with a syntax error ends its shell, as does a signal; the remaining output is emitted first. */
  private gone(code: number, outputs: readonly Pipe[] = []): void {
    this.ended = true
    afterOutput(outputs, () => {
      const { listener } = this
      this.listener = undefined
      listener?.stdout(this.stdout.flush())
      listener?.stderr(this.stderr.flush())
      listener?.exit(this.code ?? code)
    })
  }
}

/**
 * Number of idle shells that are kept per place; a node's kube-proxy, its kubelet and a grader may run
 * scripts concurrently.
 */
const idleShells = 2

/** Shells that wait for scripts, by place. */
export class ScriptPool {
  private readonly pipes: FifoPool
  private readonly env: NodeJS.ProcessEnv
  private readonly idle = new Map<string, ScriptShell[]>()

  constructor(pipes: FifoPool, env: NodeJS.ProcessEnv) {
    this.pipes = pipes
    this.env = env
  }

  /** Runs a script in an idle shell of that place, or in a new one; the returned shell can be killed. */
  run(place: ScriptPlace, script: string, listener: ScriptListener): ScriptShell {
    const key = JSON.stringify([place.pid, place.netns])
    const waiting = (this.idle.get(key) ?? []).filter(({ alive }) => alive)
    const shell = waiting.pop() ?? new ScriptShell([...enterNamespaces(place), 'sh'], this.env, this.pipes)
    this.idle.set(key, waiting)
    shell.run(script, {
      ...listener,
      exit: (code) => {
        const others = this.idle.get(key) ?? []
        if (shell.alive && others.length < idleShells) this.idle.set(key, [...others, shell])
        else shell.end()
        listener.exit(code)
      },
    })
    return shell
  }
}
