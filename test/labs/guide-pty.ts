import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { projectRoot } from '../../host/layout.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'

const TOKENS = /\x1b\[([?\d;]*)([A-Za-z])|\r\n|[\s\S]/g

/** A command in a terminal of its own, by script(1), and what its screen shows: rows, cursor and the clearing of lines. */
export class GuidePty {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #columns: number
  #rows: string[] = []
  #row = 0
  #column = 0
  #unread = ''
  /** All that was ever printed. */
  output = ''

  constructor(command: string, env: NodeJS.ProcessEnv, { columns = 100, rows = 40 } = {}) {
    this.#columns = columns
    const inside = `stty rows ${rows} cols ${columns}; ${command}`
    this.#child = spawn('script', ['-qfec', inside, '/dev/null'], {
      cwd: projectRoot,
      env,
      detached: true,
    })
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => this.#read(text))
  }

  press(keys: string): void {
    this.#child.stdin.write(keys)
  }

  get screen(): string {
    return this.#rows.map((row) => row.trimEnd()).join('\n')
  }

  /** Waits until the screen shows something. */
  async shows(what: RegExp | string, seconds = 60): Promise<string> {
    // A sentence may go on in the next row.
    const isThere = () => {
      const text = this.screen.replace(/\s+/g, ' ')
      return typeof what === 'string' ? text.includes(what) : what.test(text)
    }
    try {
      await waitFor(`${what}`, seconds * 1000, async () => isThere())
    } catch {
      throw new Error(`"${what}" does not appear on the screen:\n${this.screen}`)
    }
    return this.screen
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

  #read(text: string): void {
    this.output += text
    const all = this.#unread + text
    const cut = /\x1b(?:\[[?\d;]*)?$/.exec(all)?.index ?? all.length
    this.#unread = all.slice(cut)
    for (const [token, numbers, command] of all.slice(0, cut).matchAll(TOKENS))
      this.#obey(token, numbers, command)
  }

  #obey(token: string, numbers = '', command?: string): void {
    if (command === 'H') {
      const [row = 1, column = 1] = numbers.split(';').map(Number)
      this.#row = row - 1
      this.#column = column - 1
    } else if (command === 'J') this.#rows = []
    else if (command === 'K')
      this.#rows[this.#row] = (this.#rows[this.#row] ?? '').slice(0, this.#column)
    else if (command === undefined && (token === '\n' || token === '\r\n')) {
      this.#row++
      this.#column = 0
    } else if (command === undefined && token === '\r') this.#column = 0
    else if (command === undefined) this.#put(token)
  }

  #put(character: string): void {
    if (this.#column === this.#columns) {
      this.#row++
      this.#column = 0
    }
    while (this.#rows.length <= this.#row) this.#rows.push('')
    const line = (this.#rows[this.#row] ?? '').padEnd(this.#column)
    this.#rows[this.#row] = line.slice(0, this.#column) + character + line.slice(this.#column + 1)
    this.#column++
  }
}
