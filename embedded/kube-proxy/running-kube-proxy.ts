import type { Machine } from '../machine/machine.ts'

/** The kube-proxy of a node, for callers that wait until it has nothing left to program. Its state is read from the node alone. */
export interface RunningKubeProxy {
  /** Resolves when every change it was notified of is programmed, or could not be, or when it has ended. */
  synced(): Promise<void>
}

/** Machine → node → the kube-proxy that was started there last. A genuine one is not among them. */
const running = new WeakMap<Machine, Map<string, RunningKubeProxy>>()

/** From now on `syncedOn` waits for this kube-proxy on that node. */
export function noteRunning(machine: Machine, node: string, kubeProxy: RunningKubeProxy): void {
  const ofMachine = running.get(machine) ?? new Map<string, RunningKubeProxy>()
  running.set(machine, ofMachine.set(node, kubeProxy))
}

/** Resolves when a node's kube-proxy has programmed what it was notified of; at once for a genuine kube-proxy. */
export async function syncedOn(machine: Machine, node: string): Promise<void> {
  await running.get(machine)?.get(node)?.synced()
}
