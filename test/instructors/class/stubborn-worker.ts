// A thread that does with its files what a hostile capture might make the real one do.
import { parentPort } from 'node:worker_threads'
import type { Task } from '../../../instructors/class/judge-pool.ts'

parentPort?.on('message', (task: Task) => {
  const file = 'file' in task ? task.file : task.kubeconfig
  if (file === 'throw') throw new Error('broken')
  for (const eaten: unknown[] = []; file === 'eat'; ) eaten.push(new Array(100_000).fill({}))
  while (file === 'loop');
  parentPort?.postMessage({ file, refused: `It is ${file}.` })
})
parentPort?.postMessage('ready')
