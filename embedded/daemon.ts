// The process of the embedded cluster on the host: API server, controllers and kubelets, with the
// kernel as its child.
import { once } from 'node:events'
import { join } from 'node:path'
import { clusterFolder } from '../host/layout.ts'
import { isLive } from '../host/live-process.ts'
import { explainSystemError } from '../host/system-trouble.ts'
import { scaledMs } from '../host/wait.ts'
import { type Ending, startControlPlane } from './control-plane.ts'
import { closeInherited } from './inherited-descriptors.ts'
import { remainingAccess } from './machine/confinement.ts'
import { machineOn } from './machine/guest-machine.ts'
import { bootKernel } from './machine/kernel-process.ts'
import { watchMemory } from './machine/memory-watch.ts'
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

function report(message: DaemonMessage): void {
  if (process.connected) process.send?.(message)
}

async function step<T>(text: string, work: () => Promise<T>): Promise<T> {
  report({ type: 'start', text })
  const result = await work()
  report({ type: 'end' })
  return result
}

let ending: Promise<never> | undefined
/**
 * Components end with the help of the kernel: one that hangs is ended after this time, so that none
 * of them waits for it.
 */
const kernelMs = 3000
let endKernel = () => {}
/** Ends everything that was started, last first, and this process; the first reason is recorded. */
function shutDown(exitCode: number, reason: string): Promise<never> {
  const endAll = async (): Promise<never> => {
    console.log(`Ending: ${reason}.`)
    setTimeout(() => endKernel(), kernelMs)
    for (const end of endings.reverse())
      try {
        await end()
      } catch (error) {
        console.log(error)
      }
    process.exit(exitCode)
  }
  ending ??= endAll()
  return ending
}

/** At once: other programs of the user need the memory that the guest has filled. */
function endForMemory(reason: string): void {
  death = `its kernel ${reason}`
  endKernel()
  shutDown(1, `the kernel ${reason}`)
}

/**
 * No command can find a daemon whose folder was removed or belongs to another one, so it ends by
 * itself; so it does with its owner.
 */
const checkIntervalMs = 3000
function endWithFolder({ name, owner }: DaemonOptions): void {
  setInterval(() => {
    if (daemonOf(name) !== process.pid) shutDown(1, 'the folder of this cluster was removed')
    if (owner && !isLive(owner))
      shutDown(0, `process ${owner.pid}, which it was started for, has ended`)
  }, checkIntervalMs).unref()
}

async function start(options: DaemonOptions): Promise<void> {
  const { name, packages, kernel: kernelName, kubeProxy } = options
  const directory = clusterFolder(name)
  becomeDaemon(name)
  endWithFolder(options)
  // Last, so that the next command finds this process until it has ended. A failed start keeps its
  // log.
  endings.push(() => {
    if (ready && death !== undefined && daemonOf(name) === process.pid) noteEnd(name, death)
    else if (ready) removeClusterFolder(name, process.pid)
  })
  const machine = await step('Booting the kernel', async () => {
    const kernel = await bootKernel({
      kernel: kernelName,
      packages,
      directory: join(directory, 'uml'),
      consoleFile: consoleFile(name),
      name,
      readable: kubeProxy ? [kubeProxy] : [],
    })
    const { open } = (kernel.confinement && remainingAccess(kernel.confinement)) ?? {}
    if (open !== undefined)
      report({ type: 'note', text: `The embedded kernel is not fully confined: ${open}.` })
    endKernel = () => kernel.end()
    if (!kernel.ownKernel) watchMemory(endForMemory)
    return machineOn(kernel)
  })
  endings.push(() => machine.stop())
  machine.ended.then((reason) => {
    if (ending === undefined) death ??= `its kernel ${reason}`
    shutDown(1, `the kernel ${reason}`)
  })
  const { port, token, nodes } = await startControlPlane({
    machine,
    name,
    directory,
    kubeProxy,
    step,
    endings,
  })
  writeDaemonState(name, { port, token, nodes, kernel: kernelName })
}

const startDeadlineMs = 180_000
/**
 * Rejects if the cluster is not ready by then: a kernel that hangs after its agent's first answer
 * ends no command.
 */
async function notInTime({ name }: DaemonOptions): Promise<void> {
  const timeoutMs = scaledMs(startDeadlineMs)
  await once(AbortSignal.timeout(timeoutMs), 'abort')
  if (ready) return
  const seconds = Math.round(timeoutMs / 1000)
  throw new Error(
    `The cluster was not ready within ${seconds} s. The console of its kernel is in "${consoleFile(name)}".`,
  )
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
  process.on(signal, () => shutDown(0, signal))
// The command that started the cluster ended before the cluster was up, so no process waits for it.
process.on('disconnect', () => {
  if (!ready) shutDown(1, 'the command that started this cluster ended')
})
// An error in one component must not end the learner's cluster; it is logged.
process.on('uncaughtException', (error) => console.log(error))
process.on('unhandledRejection', (error) => console.log(error))

try {
  const options: DaemonOptions = JSON.parse(process.argv[2] ?? '{}')
  closeInherited(options.inherited)
  await Promise.race([start(options), notInTime(options)])
  ready = true
  report({ type: 'ready' })
  if (process.connected) process.disconnect()
} catch (error) {
  const text = explainSystemError(error) ?? (error instanceof Error ? error.message : String(error))
  report({ type: 'failed', text })
  await shutDown(1, text)
}
