// The embedded cluster's one process on the host: API server, controllers and kubelets, with the kernel as its child.
import { join } from 'node:path'
import { clusterFolder } from '../host/layout.ts'
import { processStartTime } from '../host/live-process.ts'
import { explainSystemError } from '../host/system-trouble.ts'
import type { Ending } from './control-plane.ts'
import { bootKernel } from './machine/boot.ts'
import { openTo } from './machine/confinement.ts'
import { machineOn } from './machine/guest-machine.ts'
import {
  becomeDaemon,
  consoleFile,
  type DaemonMessage,
  type DaemonOptions,
  daemonOf,
  noteEnd,
  removeClusterFolder,
  writeDaemonState,
} from './state-file.ts'

const endings: Ending[] = []
let ready = false
/** Why the kernel ended, unless it was stopped. */
let death: string | undefined

function tell(message: DaemonMessage): void {
  if (process.connected) process.send?.(message)
}

async function step<T>(text: string, work: () => Promise<T>): Promise<T> {
  tell({ type: 'start', text })
  const result = await work()
  tell({ type: 'end' })
  return result
}

let ending: Promise<never> | undefined
/** Ends everything that was started, last first, and this process with it; for the first reason there is. */
function shutDown(exitCode: number, reason: string): Promise<never> {
  ending ??= endAll(exitCode, reason)
  return ending
}

async function endAll(exitCode: number, reason: string): Promise<never> {
  console.log(`Ending: ${reason}.`)
  for (const end of endings.reverse())
    try {
      await end()
    } catch (error) {
      console.log(error)
    }
  process.exit(exitCode)
}

/** A daemon whose folder was removed, or belongs to another one, is found by no command: it ends by itself. */
const lookMs = 3000
function endWithFolder(name: string): void {
  setInterval(() => {
    if (daemonOf(name) !== process.pid) shutDown(1, 'the folder of this cluster is gone')
  }, lookMs).unref()
}

async function start({ name, packages, kernel: kernelName, kubeProxy }: DaemonOptions): Promise<void> {
  const directory = clusterFolder(name)
  becomeDaemon(name)
  endWithFolder(name)
  // Last of all, so that the next command finds this process until it has ended. A start that failed leaves its log.
  endings.push(() => {
    if (ready && death !== undefined && daemonOf(name) === process.pid) noteEnd(name, death)
    else if (ready) removeClusterFolder(name, process.pid)
  })
  let loading: Promise<typeof import('./control-plane.ts')> | undefined
  const machine = await step('Booting the kernel', async () => {
    const kernel = await bootKernel({
      kernel: kernelName,
      packages,
      directory: join(directory, 'uml'),
      consoleFile: consoleFile(name),
      name,
      readable: kubeProxy ? [kubeProxy] : [],
    })
    const { open } = (kernel.confinement && openTo(kernel.confinement)) ?? {}
    if (open !== undefined) tell({ type: 'note', text: `The embedded kernel is not fully confined: ${open}.` })
    // It takes a second: the rest of this program is loaded meanwhile.
    loading = import('./control-plane.ts')
    return machineOn(kernel)
  })
  endings.push(() => machine.stop())
  machine.ended.then((reason) => {
    if (ending === undefined) death = `its kernel ${reason}`
    shutDown(1, `the kernel ${reason}`)
  })
  const { startControlPlane } = await (loading ?? import('./control-plane.ts'))
  const { port, token, nodes } = await startControlPlane({ machine, name, directory, kubeProxy, step, endings })
  const startTime = processStartTime(process.pid) ?? ''
  writeDaemonState(name, { pid: process.pid, startTime, port, token, nodes, kernel: kernelName })
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => shutDown(0, signal))
// The process that started the cluster ended before it was up: no other process knows of it.
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
  const text = explainSystemError(error) ?? (error instanceof Error ? error.message : String(error))
  tell({ type: 'failed', text })
  await shutDown(1, text)
}
