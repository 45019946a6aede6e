// Judges the files that the pool sends, one at a time, in a thread that can be ended when a file never comes to an end.
import { parentPort, workerData } from 'node:worker_threads'
import type { ClassKey } from '../submission/signature.ts'
import { judgeFile } from './judge-file.ts'

// Findings are values here, nobody reads where they were thrown.
Error.stackTraceLimit = 0
const { key }: { key: ClassKey | undefined } = workerData
const own = key && { ...key, secret: Buffer.from(key.secret) }
parentPort?.on('message', async (file: string) => {
  parentPort?.postMessage(await judgeFile(file, { key: own }))
})
parentPort?.postMessage('ready')
