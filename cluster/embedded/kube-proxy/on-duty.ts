import type { Machine } from '../machine/machine.ts'

/** What others ask the kube-proxy of a node. */
export interface OnDuty {
  /** What it answers at /proxyMode; nothing while nobody listens there. */
  readonly mode: string | undefined
  /** Resolves when all that it has heard of so far is programmed, or could not be, or when it has ended. */
  synced(): Promise<void>
}

/** Machine → node → the kube-proxy that was started there last. A genuine one is not among them. */
const duties = new WeakMap<Machine, Map<string, OnDuty>>()

/** From now on this kube-proxy is asked on that node. */
export function takeDuty(machine: Machine, node: string, kubeProxy: OnDuty): void {
  const ofMachine = duties.get(machine) ?? new Map<string, OnDuty>()
  duties.set(machine, ofMachine.set(node, kubeProxy))
}

/**
 * Shell for the head of a script: `kube_proxy_says`, so that a report need not open a connection on a kernel where the
 * program that does costs as much as half the report. Empty text where nobody knows, as with a genuine kube-proxy.
 */
export function spokenMode(machine: Machine, node: string): string {
  const onDuty = duties.get(machine)?.get(node)
  return onDuty === undefined ? '' : `kube_proxy_says=${onDuty.mode || 'nothing'}\n`
}

/** Resolves when a node's kube-proxy has programmed what it has heard of; at once where nobody can tell. */
export async function syncedOn(machine: Machine, node: string): Promise<void> {
  await duties.get(machine)?.get(node)?.synced()
}
