import { setTimeout as delay } from 'node:timers/promises'
import { notFound, type RunningContainer } from './container-process.ts'
import type { PodSandbox } from './container-start.ts'
import type { NodeContext } from './node-context.ts'
import type { Container, LifecycleHandler } from './objects.ts'
import { runProbe } from './probe.ts'

/** Runs a postStart or preStop handler to its end. Resolves with why it failed, or undefined. */
export async function runHandler(
  { machine, prober }: NodeContext,
  { podIP }: PodSandbox,
  container: Container,
  { placement }: RunningContainer,
  handler: LifecycleHandler,
): Promise<string | undefined> {
  if (handler.exec) {
    const { command = [] } = handler.exec
    if (!placement) return notFound(command)
    const { exitCode, stdout, stderr } = await machine.run(command, placement)
    return exitCode === 0 ? undefined : `command '${command.join(' ')}' exited with ${exitCode}: ${stdout}${stderr}`
  }
  if (handler.sleep) {
    await delay(handler.sleep.seconds * 1000)
    return undefined
  }
  const { httpGet, tcpSocket } = handler
  const probe = { timeoutSeconds: 30, ...(httpGet && { httpGet }), ...(tcpSocket && { tcpSocket }) }
  return runProbe(probe, { machine, prober, container, podIP, placement })
}
