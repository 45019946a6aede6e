import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { ClassKey } from '../../grading/class-key.ts'
import { START } from '../../host/layout.ts'
import { timeoutScale } from '../../host/wait.ts'
import type { Judged } from './judge-file.ts'

/** A submission, or a learner's running cluster. */
export type Task = { file: string } | LiveTask

export interface LiveTask {
  /** Path of a kubeconfig; the name of the file, without its ending, is the learner's. */
  kubeconfig: string
  lab: number
}

/** Every regular file of a folder is a learner's kubeconfig. */
export function liveTasks(folder: string, lab: number): LiveTask[] {
  const entries = readdirSync(folder, { withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map(({ name }) => ({ kubeconfig: join(folder, name), lab }))
}

export interface PoolOptions {
  key?: ClassKey | undefined
  /** The word of the class. */
  word?: string | undefined
  /** Tasks judged at the same time. */
  jobs?: number
  /** Time limit of one task in milliseconds, before the scale factor. */
  deadlineMs?: number
  /** Memory limit of one thread in megabytes. */
  memoryMb?: number
  onJudged?: (judged: Judged, done: number) => void
  /** The thread's program (scripts/start.mjs). */
  worker?: string
}

const DEADLINE_MS = 20_000
const MEMORY_MB = 768
const WORKER = 'instructors/class/judge-worker.ts'

/**
 * Judges tasks in threads of this process and returns their results, in the order given. A task that takes too long or too
 * much memory ends only its own thread, which is replaced.
 */
export async function judgeAll(tasks: readonly Task[], options: PoolOptions = {}): Promise<Judged[]> {
  const results: Judged[] = []
  let next = 0
  let done = 0
  const lane = async () => {
    let thread: JudgingThread | undefined
    try {
      for (let index = next++; index < tasks.length; index = next++) {
        const task = tasks[index]
        if (!task) continue
        thread ??= new JudgingThread(options, 'kubeconfig' in task)
        const judged = await thread.judge(task)
        if (thread.hasEnded) thread = undefined
        results[index] = judged
        options.onJudged?.(judged, ++done)
      }
    } finally {
      await thread?.end()
    }
  }
  const jobs = Math.min(options.jobs ?? Math.min(4, availableParallelism()), tasks.length)
  await Promise.all(Array.from({ length: jobs }, lane))
  return results
}

class JudgingThread {
  hasEnded = false
  readonly #worker: Worker
  readonly #ready: Promise<unknown>
  readonly #deadlineMs: number
  readonly #memoryMb: number

  constructor(
    { key, word, deadlineMs = DEADLINE_MS, memoryMb = MEMORY_MB, worker = WORKER }: PoolOptions,
    live: boolean,
  ) {
    this.#deadlineMs = deadlineMs * timeoutScale()
    this.#memoryMb = memoryMb
    this.#worker = new Worker(START, {
      argv: [worker],
      workerData: { key, word, live },
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    })
    // An error that comes between two tasks ends the thread; the next task finds it ended.
    this.#worker.on('error', () => undefined)
    this.#ready = once(this.#worker, 'message')
    this.#ready.catch(() => undefined)
  }

  async judge(task: Task): Promise<Judged> {
    try {
      // The time limit of the first task begins after the checks are loaded.
      await this.#ready
      const answer = once(this.#worker, 'message', { signal: AbortSignal.timeout(this.#deadlineMs) })
      this.#worker.postMessage(task)
      const [judged] = await answer
      return judged
    } catch (error) {
      await this.end()
      const file = basename('file' in task ? task.file : task.kubeconfig)
      return { file, refused: this.#sentence(task, error) }
    }
  }

  async end(): Promise<void> {
    this.hasEnded = true
    await this.#worker.terminate()
  }

  #sentence(task: Task, error: unknown): string {
    const { name, code, message } = error as NodeJS.ErrnoException
    if (name === 'AbortError')
      return `${'file' in task ? 'It was not judged' : 'The cluster did not respond'} in ${this.#deadlineMs / 1000} s.`
    if (code === 'ERR_WORKER_OUT_OF_MEMORY') return `It needs more than ${this.#memoryMb} MB of memory to be judged.`
    return `The grader could not judge it (${message.split('\n')[0]}).`
  }
}
