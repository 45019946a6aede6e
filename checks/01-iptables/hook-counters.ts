import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { HOOKS, type Hook, type HookCounts, HookProbes } from '../../grading/hook-probes.ts'

/** Port of kube-proxy's health check: the one listener on every node that no other client uses. */
export const PROBE_PORT = 10256
/** The learner's probes of this lab. */
export const probes = new HookProbes('probe', PROBE_PORT)

/** Shell text that prints the counters of the probes of one address family. */
export const readProbes = (command: 'iptables' | 'ip6tables' = 'iptables') =>
  `echo '#probes'; ${command}-save -c -t mangle; echo '#end'`

/** The readings in a script's output, in order. */
export function parseProbes(stdout: string): HookCounts[] {
  return [...stdout.matchAll(/^#probes\n([\s\S]*?)^#end$/gm)].map(([, text = '']) =>
    probes.countsIn(parseIptablesSave(text)),
  )
}

/** By how much each probe moved between two readings: `PREROUTING 1, INPUT 1`; `none` when none did. */
export function movedBetween(before: HookCounts, after: HookCounts): string {
  const moved = HOOKS.flatMap((hook) => {
    const packets = (after[hook] ?? 0) - (before[hook] ?? 0)
    return packets === 0 ? [] : [`${hook} ${packets}`]
  })
  return moved.length > 0 ? moved.join(', ') : 'none'
}

/** The hooks of one packet, as `movedBetween` writes them. */
export const once = (...hooks: Hook[]) => hooks.map((hook) => `${hook} 1`).join(', ')
