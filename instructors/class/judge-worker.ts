// Judges the tasks of the pool, one at a time, in a thread that can be ended when a task does not finish.
import { parentPort, workerData } from 'node:worker_threads'
import type { ClassKey } from '../../grading/class-key.ts'
import { judgeFile } from './judge-file.ts'
import type { Task } from './judge-pool.ts'

// Failures are values here; stack traces are not used.
Error.stackTraceLimit = 0
const { key, word, live }: { key: ClassKey | undefined; word: string | undefined; live: boolean } = workerData
const judging = () => import('./judge-live.ts')
const own = key && { ...key, secret: Buffer.from(key.secret) }
parentPort?.on('message', async (task: Task) => {
  if ('file' in task) return parentPort?.postMessage(await judgeFile(task.file, { key: own, word }))
  const { judgeLive } = await judging()
  parentPort?.postMessage(await judgeLive(task, undefined, { key: own, word }))
})
// Loaded first, so that the time is not counted for a cluster.
if (live) await (await judging()).loadClient()
parentPort?.postMessage('ready')
