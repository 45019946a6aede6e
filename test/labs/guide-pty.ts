import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { projectRoot } from '../../host/layout.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'

const COLOURS = /\x1b\[[\d;]*m/g

/**
 * A command in a terminal of its own, by script(1), and what it has printed since a line was typed
 * last.
 */
export class GuidePty {
  readonly #child: ChildProcessWithoutNullStreams
  #typedAt = 0
  /** All that was ever printed. */
  output = ''

  constructor(command: string, env: NodeJS.ProcessEnv) {
    const inside = `stty rows 40 cols 100; ${command}`
    this.#child = spawn('script', ['-qfec', inside, '/dev/null'], {
      cwd: projectRoot,
      env,
      detached: true,
    })
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.output += text
    })
  }

  /** Types a line and Enter. */
  type(line = ''): void {
    this.#typedAt = this.output.length
    this.#child.stdin.write(`${line}\r`)
  }

  /** What was printed since the last line was typed, without colours. */
  get printed(): string {
    return this.output.slice(this.#typedAt).replace(COLOURS, '').replaceAll('\r\n', '\n')
  }

  /**
   * Waits until something is printed; a sentence may go on in the next line. Returns what was
   * printed, as one line.
   */
  async shows(what: string, seconds = 60): Promise<string> {
    const text = () => this.printed.replace(/\s+/g, ' ')
    await this.#until(what, seconds, () => text().includes(what))
    return text()
  }

  /** Waits until the last line, which is the status of the step, matches. */
  async showsStatus(pattern: RegExp, seconds = 60): Promise<void> {
    const last = () => this.printed.trimEnd().split('\n').at(-1) ?? ''
    await this.#until(`${pattern}`, seconds, () => pattern.test(last()))
  }

  /** The exit code of the command, once it has ended. */
  async exitCode(): Promise<number | null> {
    if (this.#child.exitCode === null)
      await once(this.#child, 'exit', { signal: AbortSignal.timeout(60_000 * timeoutScale()) })
    return this.#child.exitCode
  }

  end(): void {
    const { pid } = this.#child
    if (pid !== undefined && this.#child.exitCode === null) process.kill(-pid, 'SIGTERM')
  }

  async #until(what: string, seconds: number, isThere: () => boolean): Promise<void> {
    try {
      await waitFor(what, seconds * 1000, async () => isThere())
    } catch {
      throw new Error(`"${what}" was not printed:\n${this.printed}`)
    }
  }
}
