import { parseIptablesSave, type Rule, type Ruleset } from '../dataplane/iptables-save.ts'
import { ParseError } from '../dataplane/program-output.ts'
import { commentOf, targetOf } from '../dataplane/rule.ts'
import { HOOKS, type Hook } from '../dataplane/trace/step.ts'
import { expectOnNode, onNode, Trouble } from './failure.ts'
import type { LiveCluster } from './live-cluster.ts'
import { type NodeView, stateOf } from './snapshot.ts'

/**
 * The rules of a table with their counters, on a node of a running cluster. Throws Trouble when
 * they can't be read.
 */
async function readCounters(
  live: LiveCluster,
  node: string,
  command: string,
  table: string,
): Promise<Ruleset> {
  const { stdout } = await live.onNode(node, `${command}-save -c -t ${table}`)
  try {
    const rules = parseIptablesSave(stdout)
    if (rules.has(table)) return rules
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
  }
  throw new Trouble(`the counters of ${node} could not be read`)
}

/**
 * The packets that a rule of a chain has counted; undefined if there is no such rule. Throws as
 * readCounters does.
 */
export async function packetsOn(
  live: LiveCluster,
  node: string,
  [table, chain]: readonly [table: string, chain: string],
  isMeant: (spec: string) => boolean,
): Promise<number | undefined> {
  const rules = (await readCounters(live, node, 'iptables', table)).get(table)?.get(chain)?.rules
  const rule = rules?.find(({ spec }) => isMeant(spec))
  return rule && (rule.packets ?? 0)
}

/** Packets that the probe of each hook has counted; a hook without a probe is omitted. */
export type HookCounts = Partial<Record<Hook, number>>

export const LOOK_AT_PROBES = 'iptables -t mangle -nvL'

/**
 * The packets that the probes have counted between two readings: `PREROUTING 1, INPUT 1`; `none` if
 * no counter grew.
 */
export function countedBetween(before: HookCounts, after: HookCounts): string {
  const counted = HOOKS.flatMap((hook) => {
    const packets = (after[hook] ?? 0) - (before[hook] ?? 0)
    return packets === 0 ? [] : [`${hook} ${packets}`]
  })
  return counted.join(', ') || 'none'
}

/** One packet through these hooks, as `countedBetween` writes it. */
export const onePacket = (...hooks: Hook[]): string => hooks.map((hook) => `${hook} 1`).join(', ')

/**
 * A learner's probes: rules without a target that count new connections to a port, one in each hook
 * of mangle, which has all five.
 */
export class HookProbes {
  readonly #comment: string
  readonly #port: number

  /** @param comment the comment of the probes in the lab's text */
  constructor(comment: string, port: number) {
    this.#comment = comment
    this.#port = port
  }

  /** The command that adds one. */
  addTo(hook: Hook): string {
    return `iptables -t mangle ${this.#ruleIn(hook)}`
  }

  /** The counters of the probes in a ruleset. */
  countsIn(ruleset: Ruleset): HookCounts {
    const counts: HookCounts = {}
    for (const [hook, { packets }] of this.#rulesIn(ruleset)) counts[hook] = packets ?? 0
    return counts
  }

  /** The counters of the probes of one address family on a node of a running cluster. */
  async readOn(
    live: LiveCluster,
    node: string,
    command: 'iptables' | 'ip6tables' = 'iptables',
  ): Promise<HookCounts> {
    return this.countsIn(await readCounters(live, node, command, 'mangle'))
  }

  /**
   * A probe is in each of the five hooks, and all match the same packets. Returns their counters.
   */
  expectInEveryHook(node: NodeView): HookCounts {
    const { name } = node
    const { iptables } = stateOf(node)
    const counts = this.countsIn(iptables)
    const bare = HOOKS.filter((hook) => counts[hook] === undefined)
    const [first] = bare
    expectOnNode(name, LOOK_AT_PROBES, first === undefined, {
      expected: `a rule with the comment ${this.#comment} and without a target in each of ${HOOKS.join(', ')}`,
      actual: `none in ${bare.join(', ')}`,
      differences: bare.map((hook) => ({
        kind: 'missing',
        text: `no probe in ${hook}`,
        expected: this.#ruleIn(hook),
      })),
      ...(first && { next: onNode(name, this.addTo(first)) }),
    })
    const odd = this.#mismatched(iptables)
    expectOnNode(name, LOOK_AT_PROBES, odd === undefined, {
      expected: `probes that all count new connections to port ${this.#port}`,
      actual: `-A ${odd?.hook} ${odd?.spec}`,
      ...(odd && {
        hint: 'Delete it, with -D in place of -A, and add:',
        next: onNode(name, this.addTo(odd.hook)),
      }),
    })
    return counts
  }

  #ruleIn(hook: Hook): string {
    return `-A ${hook} -p tcp --syn --dport ${this.#port} -m comment --comment ${this.#comment}`
  }

  /** If a hook has several, the oldest: after a repeated command both have equal counters. */
  #rulesIn(ruleset: Ruleset): Map<Hook, Rule> {
    const mangle = ruleset.get('mangle')
    const isProbe = ({ spec }: Rule) =>
      commentOf(spec) === this.#comment && targetOf(spec) === undefined
    return new Map(
      HOOKS.flatMap((hook) => {
        const probe = mangle?.get(hook)?.rules.find(isProbe)
        return probe ? [[hook, probe] as const] : []
      }),
    )
  }

  /**
   * The probe that differs from the others. Counters are comparable only if all probes match the
   * same packets.
   */
  #mismatched(ruleset: Ruleset): { hook: Hook; spec: string } | undefined {
    const probes = [...this.#rulesIn(ruleset)].map(([hook, { spec }]) => ({ hook, spec }))
    const count = (spec: string) => probes.filter((other) => other.spec === spec).length
    const usual = probes.toSorted((one, other) => count(other.spec) - count(one.spec))[0]?.spec
    return probes.find(
      ({ spec }) => spec !== usual || !` ${spec} `.includes(` --dport ${this.#port} `),
    )
  }
}
