// A learner's shell, in which the commands of a lab's text are run.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Fence } from '../lab-text.ts'

/**
 * One bash in which the fences of a text are run in sequence, so that variables and functions
 * persist.
 */
export class FenceShell {
  readonly #bash: ChildProcessWithoutNullStreams
  #output = ''

  constructor(cwd: string, env: NodeJS.ProcessEnv) {
    this.#bash = spawn('bash', ['--noprofile', '--norc'], { cwd, env, detached: true })
    for (const stream of [this.#bash.stdout, this.#bash.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text
      })
  }

  /**
   * Runs a fence and waits for its end; the exit code is that of the first failed command line,
   * else 0.
   */
  async type({ commands, timeout }: Fence): Promise<{ exitCode: number; output: string }> {
    this.#output = ''
    const mark = randomUUID()
    const lines = commands
      .split('\n')
      .map((line) => `[ $failed = 0 ] && { ${line}\n}; [ $? = 0 ] || failed=1`)
    this.#bash.stdin.write(`failed=0\n${lines.join('\n')}\necho; echo "${mark} $failed"\n`)
    const end = new RegExp(`${mark} (\\d+)\\n`)
    const deadline = Date.now() + timeout * 1000
    for (;;) {
      const found = end.exec(this.#output)
      if (found)
        return { exitCode: Number(found[1]), output: this.#output.slice(0, found.index).trim() }
      if (Date.now() > deadline || this.#bash.exitCode !== null)
        return { exitCode: -1, output: `${this.#output}\n(no end after ${timeout} s)` }
      await once(this.#bash.stdout, 'data', { signal: AbortSignal.timeout(200) }).catch(() => {})
    }
  }

  end(): void {
    const { pid } = this.#bash
    if (pid !== undefined && this.#bash.exitCode === null) process.kill(-pid, 'SIGKILL')
  }
}

/** The environment of a learner's shell: npm sets NODE to the path of node for its children. */
export function learnerEnvironment(name: string): NodeJS.ProcessEnv {
  const { NODE: _npm, ...env } = process.env
  return { ...env, NAME: name, CLUSTER: 'embedded', NO_COLOR: '1' }
}
