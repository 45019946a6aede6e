// The embedded cluster's one process on the host: API server, controllers and kubelets, with the kernel as its child.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { clusterFolder } from '../host/layout.ts'
import type { Ending } from './control-plane.ts'
import type { DaemonMessage, DaemonOptions } from './daemon-messages.ts'
import { bootKernel } from './machine/boot.ts'
import { machineOn } from './machine/uml-machine.ts'
import { processStartTime, removeClusterFolder, writeDaemonState } from './state-file.ts'

const endings: Ending[] = []

function tell(message: DaemonMessage): void {
  if (process.connected) process.send?.(message)
}

async function step<T>(text: string, work: () => Promise<T>): Promise<T> {
  tell({ type: 'start', text })
  const result = await work()
  tell({ type: 'end' })
  return result
}

let ending = false
/** Ends everything that was started, in order, and this process with it. */
async function shutDown(exitCode: number, reason: string): Promise<never> {
  if (!ending) {
    ending = true
    console.log(`Ending: ${reason}.`)
    for (const end of endings.reverse())
      try {
        await end()
      } catch (error) {
        console.log(error)
      }
  }
  process.exit(exitCode)
}

async function start({ name, packages, kubeProxy }: DaemonOptions): Promise<void> {
  const directory = clusterFolder(name)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  let loading: Promise<typeof import('./control-plane.ts')> | undefined
  const machine = await step('Booting the kernel', async () => {
    const kernel = await bootKernel({ packages, directory: join(directory, 'uml'), name })
    // It takes a second: the rest of this program is loaded meanwhile.
    loading = import('./control-plane.ts')
    return machineOn(kernel)
  })
  endings.push(() => machine.stop())
  machine.ended.then((reason) => shutDown(1, `the kernel is gone (${reason})`))
  const { startControlPlane } = await (loading ?? import('./control-plane.ts'))
  const { port, token, nodes } = await startControlPlane({ machine, name, directory, kubeProxy, step, endings })
  const startTime = processStartTime(process.pid) ?? ''
  writeDaemonState(name, { pid: process.pid, startTime, port, token, nodes })
  endings.push(() => removeClusterFolder(name))
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => shutDown(0, signal))
let ready = false
// Whoever asked for the cluster is gone before it is up: nobody would know of it.
process.on('disconnect', () => {
  if (!ready) shutDown(1, 'the command that started this cluster ended')
})
// A fault in one corner must not take the learner's cluster down with it; it is on record in the log.
process.on('uncaughtException', (error) => console.log(error))
process.on('unhandledRejection', (error) => console.log(error))

try {
  await start(JSON.parse(process.argv[2] ?? '{}') as DaemonOptions)
  ready = true
  tell({ type: 'ready' })
  if (process.connected) process.disconnect()
} catch (error) {
  const text = error instanceof Error ? error.message : String(error)
  tell({ type: 'failed', text })
  await shutDown(1, text)
}
