import type { Machine } from '../machine/machine.ts'

/** Machine → node → the mode that the kube-proxy there tells at /proxyMode; empty where one ran and none answers now. */
const spoken = new WeakMap<Machine, Map<string, { mode: string; pod: string }>>()

/** Notes what the kube-proxy of a node answers at /proxyMode from now on; nothing when it has ended and no other Pod's answers. */
export function speakMode(machine: Machine, node: string, pod: string, mode: string | undefined): void {
  const ofMachine = spoken.get(machine) ?? new Map<string, { mode: string; pod: string }>()
  if (mode === undefined && ofMachine.get(node)?.pod !== pod) return
  spoken.set(machine, ofMachine.set(node, { mode: mode ?? '', pod }))
}

/**
 * Shell for the head of a script: `kube_proxy_says`, so that a report need not open a connection on a kernel where the
 * program that does costs as much as half the report. Empty text where nobody knows, as with a genuine kube-proxy.
 */
export function spokenMode(machine: Machine, node: string): string {
  const said = spoken.get(machine)?.get(node)
  return said === undefined ? '' : `kube_proxy_says=${said.mode || 'nothing'}\n`
}
