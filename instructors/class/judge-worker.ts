// Judges the tasks of the pool, one at a time, in a thread that can be ended when a task does not
// finish.
import { parentPort, workerData } from 'node:worker_threads'
import type { ClassKey } from '../../grading/class-key.ts'
import { type JudgeFileOptions, judgeFile } from './judge-file.ts'
import type { Task } from './judge-pool.ts'

// Failures are values here; stack traces are not used.
Error.stackTraceLimit = 0
const {
  key,
  word,
  tasks,
  live,
}: Pick<JudgeFileOptions, 'word' | 'tasks'> & { key: ClassKey | undefined; live: boolean } =
  workerData
const options = { key: key && { ...key, secret: Buffer.from(key.secret) }, word, tasks }
const loadLive = () => import('./judge-live.ts')
parentPort?.on('message', async (task: Task) => {
  const judged =
    'file' in task
      ? await judgeFile(task.file, options)
      : await (await loadLive()).judgeLive(task, options)
  parentPort?.postMessage(judged)
})
// The API client is loaded first, which can take longer than grading a cluster.
if (live) await loadLive()
parentPort?.postMessage('ready')
