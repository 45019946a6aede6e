// Judges what the pool sends, one task at a time, in a thread that can be ended when a task never comes to an end.
import { parentPort, workerData } from 'node:worker_threads'
import type { ClassKey } from '../../grading/signature.ts'
import { judgeFile } from './judge-file.ts'
import type { Task } from './judge-pool.ts'

// Failures are values here; their stack traces are never read.
Error.stackTraceLimit = 0
const { key, word, live }: { key: ClassKey | undefined; word: string | undefined; live: boolean } = workerData
const judging = () => import('./judge-live.ts')
const own = key && { ...key, secret: Buffer.from(key.secret) }
parentPort?.on('message', async (task: Task) => {
  if ('file' in task) return parentPort?.postMessage(await judgeFile(task.file, { key: own, word }))
  const { judgeLive } = await judging()
  parentPort?.postMessage(await judgeLive(task, undefined, { key: own, word }))
})
// The time that loading takes is no cluster's fault.
if (live) await (await judging()).loadClient()
parentPort?.postMessage('ready')
