import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { START } from '../../host/layout.ts'
import { scaledMs } from '../../host/wait.ts'
import type { JudgedFile, JudgeFileOptions } from './judge-file.ts'

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

const WORKER = 'instructors/class/judge-worker.ts'

export interface PoolOptions extends Pick<JudgeFileOptions, 'key' | 'word' | 'tasks'> {
  /** Tasks judged at the same time. */
  jobs: number
  /** Time limit of one task in milliseconds, before the scale factor. */
  deadlineMs?: number
  /** Memory limit of one thread in megabytes. */
  memoryMb?: number
  onJudged?: (judged: JudgedFile, done: number) => void
  /** The thread's program (scripts/start.mjs). */
  program?: string
}

/**
 * Judges tasks in threads of this process and returns their results, in the order given. A task
 * that takes too long or too much memory ends only its own thread, which is replaced.
 */
export async function judgeAll(
  tasks: readonly Task[],
  options: PoolOptions,
): Promise<JudgedFile[]> {
  const {
    key,
    word,
    tasks: entries,
    jobs,
    deadlineMs = 20_000,
    memoryMb = 768,
    onJudged,
    program = WORKER,
  } = options
  const results: JudgedFile[] = []
  const limitMs = scaledMs(deadlineMs)
  const waiting = tasks.entries()
  let done = 0
  const lane = async () => {
    let thread: Worker | undefined
    // Every lane takes the next task from the same iterator.
    for (const [index, task] of waiting) {
      let judged: JudgedFile
      try {
        thread ??= await startThread(
          program,
          { key, word, tasks: entries, live: 'kubeconfig' in task },
          memoryMb,
        )
        const answer = once(thread, 'message', { signal: AbortSignal.timeout(limitMs) })
        thread.postMessage(task)
        ;[judged] = await answer
      } catch (error) {
        await thread?.terminate()
        thread = undefined
        const file = basename('file' in task ? task.file : task.kubeconfig)
        judged = { file, refused: workerFailure(error, task, limitMs, memoryMb) }
      }
      results[index] = judged
      onJudged?.(judged, ++done)
    }
    await thread?.terminate()
  }
  await Promise.all(Array.from({ length: Math.min(jobs, tasks.length) }, lane))
  return results
}

/**
 * Starts a thread and waits until it has loaded the checks, so that the time limit of its first
 * task begins then.
 */
async function startThread(
  program: string,
  workerData: object,
  maxOldGenerationSizeMb: number,
): Promise<Worker> {
  const thread = new Worker(START, {
    argv: [program],
    workerData,
    resourceLimits: { maxOldGenerationSizeMb },
  })
  // An error that comes between two tasks ends the thread; the next task finds it ended.
  thread.on('error', () => undefined)
  await once(thread, 'message')
  return thread
}

function workerFailure(error: unknown, task: Task, limitMs: number, memoryMb: number): string {
  const { name, code, message } = error as NodeJS.ErrnoException
  if (name === 'AbortError')
    return `${'file' in task ? 'It was not judged' : 'The cluster did not respond'} in ${limitMs / 1000} s.`
  if (code === 'ERR_WORKER_OUT_OF_MEMORY')
    return `It needs more than ${memoryMb} MB of memory to be judged.`
  return `The grader could not judge it (${message.split('\n')[0]}).`
}
