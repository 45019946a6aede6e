import { parseIptablesSave, type Rule, type Ruleset } from '../../dataplane/iptables-save.ts'
import { commentOf, targetOf } from '../../dataplane/rule-text.ts'

/** Netfilter's hooks by the names of the chains that sit on them. Only the table mangle has a chain on all five. */
export const HOOKS = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'] as const
export type Hook = (typeof HOOKS)[number]

/** Port of kube-proxy's health check: the one thing on every node that nobody else talks to. */
export const PROBE_PORT = 10256
const PROBE = 'probe'

/** Packets that the probe of each hook has counted; a hook without a probe is left out. */
export type HookCounts = Partial<Record<Hook, number>>

/** The learner's probes in the table mangle: rules with the comment `probe` that send packets nowhere. */
export function probesIn(ruleset: Ruleset): HookCounts {
  const counts: HookCounts = {}
  for (const [hook, { packets }] of probeRules(ruleset)) counts[hook] = packets ?? 0
  return counts
}

/** The same as rules; of several in one hook the oldest, as whoever typed the commands twice has two that count the same. */
export function probeRules(ruleset: Ruleset): Map<Hook, Rule> {
  const mangle = ruleset.get('mangle')
  const probes = new Map<Hook, Rule>()
  for (const hook of HOOKS) {
    const probe = mangle?.get(hook)?.rules.find(({ spec }) => isProbe(spec))
    if (probe) probes.set(hook, probe)
  }
  return probes
}

const isProbe = (spec: string) => commentOf(spec) === PROBE && targetOf(spec) === undefined

/** Shell text that prints the counters of the probes of one address family. */
export const readProbes = (command: 'iptables' | 'ip6tables' = 'iptables') =>
  `echo '#probes'; ${command}-save -c -t mangle; echo '#end'`

/** The readings in a script's output, in order. */
export function parseProbes(stdout: string): HookCounts[] {
  return [...stdout.matchAll(/^#probes\n([\s\S]*?)^#end$/gm)].map(([, text = '']) => probesIn(parseIptablesSave(text)))
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
