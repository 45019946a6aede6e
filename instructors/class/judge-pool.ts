import { availableParallelism } from 'node:os'
import { basename } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { ClassKey } from '../../grading/signature.ts'
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
        if (thread.ended) thread = undefined
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
  ended = false
  readonly #worker: Worker
  readonly #ready: Promise<void>
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
    // The time limit of the first task begins after the checks are loaded.
    this.#ready = new Promise((resolve) => this.#worker.once('message', () => resolve()))
    this.#worker.on('error', () => undefined)
  }

  async judge(task: Task): Promise<Judged> {
    const file = basename('file' in task ? task.file : task.kubeconfig)
    const gone = new Promise<Judged>((resolve) => {
      this.#worker.once('error', (error: NodeJS.ErrnoException) => {
        this.ended = true
        resolve({ file, refused: this.#sentence(error) })
      })
    })
    const first = await Promise.race([this.#ready, gone])
    if (first) return first
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), this.#deadlineMs)
    })
    const answer = new Promise<Judged>((resolve) => this.#worker.once('message', resolve))
    this.#worker.postMessage(task)
    const judged = await Promise.race([answer, gone, deadline])
    clearTimeout(timer)
    this.#worker.removeAllListeners('message')
    this.#worker.removeAllListeners('error')
    this.#worker.on('error', () => undefined)
    if (judged !== 'late') return judged
    await this.end()
    const what = 'file' in task ? 'It was not judged' : 'The cluster did not respond'
    return { file, refused: `${what} in ${this.#deadlineMs / 1000} s.` }
  }

  async end(): Promise<void> {
    this.ended = true
    await this.#worker.terminate()
  }

  #sentence(error: NodeJS.ErrnoException): string {
    if (error.code === 'ERR_WORKER_OUT_OF_MEMORY')
      return `It needs more than ${this.#memoryMb} MB of memory to be judged.`
    return `The grader could not judge it (${error.message.split('\n')[0]}).`
  }
}
