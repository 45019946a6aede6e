// Judges what the pool sends, one task at a time, in a thread that can be ended when a task never comes to an end.
import { parentPort, workerData } from 'node:worker_threads'
import type { ClassKey } from '../submission/signature.ts'
import { judgeFile } from './judge-file.ts'
import type { Task } from './judge-pool.ts'

// Findings are values here, nobody reads where they were thrown.
Error.stackTraceLimit = 0
const { key }: { key: ClassKey | undefined } = workerData
const own = key && { ...key, secret: Buffer.from(key.secret) }
parentPort?.on('message', async (task: Task) => {
  if ('file' in task) return parentPort?.postMessage(await judgeFile(task.file, { key: own }))
  const { judgeLive } = await import('./judge-live.ts')
  parentPort?.postMessage(await judgeLive(task))
})
parentPort?.postMessage('ready')
