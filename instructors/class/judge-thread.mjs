// A thread of Node 20 does not inherit the loader for TypeScript: this registers one, then reads the module of the thread.
import { workerData } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

register()
await import(workerData.module)
