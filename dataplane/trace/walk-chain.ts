import type { Chain, Rule, Table } from '../iptables-save.ts'
import type { ParsedRule } from '../rule.ts'
import { knownRule } from '../rule-text.ts'
import { applyTarget } from './apply-target.ts'
import { describeFlow, type Flow, mergeFlows } from './flow.ts'
import { isForOther, judgeRule } from './judge-rule.ts'
import type { TraceContext } from './matches.ts'
import type { Hook, Step } from './step.ts'

/** Rules that send packets in a circle; the kernel refuses to load such a table, so the text was made by hand. */
export class CircleError extends Error {
  override name = 'CircleError'
}

/** How a packet came out of a table or a base chain; for a lost one, the step that lost it. */
export interface HookEnd {
  flow: Flow
  verdict: 'accept' | 'drop' | 'reject'
  by: Step
}

export interface ChainEnd {
  flow: Flow
  verdict: 'accept' | 'return' | 'drop' | 'reject'
  by?: Step
}

/** A walk of packets through the rules of one node: every rule met is given to `record`, or only those that match. */
export class Walk {
  protected readonly context: TraceContext
  protected readonly record: (step: Step) => void
  protected readonly matchingOnly: boolean

  constructor(context: TraceContext, record: (step: Step) => void, matchingOnly = false) {
    this.context = context
    this.record = record
    this.matchingOnly = matchingOnly
  }
}

/**
 * Walks packets through the tables of one node. Where a rule matches by chance only, the packet follows both paths, each with
 * its share of the probability; every rule met is given to `record`, or only those that match.
 */
export class TableWalk extends Walk {
  /** Walks the built-in chain of a hook to its end, policy included. A table without that chain accepts. */
  table(hook: Hook, name: string, table: Table | undefined, flow: Flow): HookEnd[] {
    const chain = table?.get(hook)
    if (!table || !chain) return [{ flow, verdict: 'accept', by: this.#policyStep(hook, name, flow, 'ACCEPT') }]
    const ends = this.#chain({ hook, name, table }, chain, flow, [hook])
    return ends.map((end): HookEnd => {
      if (end.verdict !== 'return' && end.by) return { flow: end.flow, verdict: end.verdict, by: end.by }
      const step = this.#policyStep(hook, name, end.flow, chain.policy)
      this.record(step)
      return { flow: end.flow, verdict: chain.policy === 'DROP' ? 'drop' : 'accept', by: step }
    })
  }

  #policyStep(hook: Hook, table: string, flow: Flow, policy: string): Step {
    const { probability } = flow
    const reason = 'the end of the chain: its policy'
    const rule = `-P ${hook} ${policy}`
    return {
      hook,
      table,
      chain: hook,
      rule,
      verdict: policy,
      matched: true,
      reason,
      probability,
      packet: describeFlow(flow),
    }
  }

  #chain(place: Place, chain: Chain, flow: Flow, path: readonly string[]): ChainEnd[] {
    const ends: ChainEnd[] = []
    let alive = [flow]
    for (const rule of chain.rules) {
      const next: Flow[] = []
      let matched = false
      for (const packet of alive) {
        const met = this.#rule(place, chain, rule, packet, path)
        if (!met) {
          next.push(packet)
          continue
        }
        matched = true
        for (const end of met) {
          if (end.verdict === 'continue') next.push(end.flow)
          else ends.push({ ...end, verdict: end.verdict })
        }
      }
      if (matched) alive = mergeFlows(next)
      if (alive.length === 0) return ends
    }
    for (const packet of alive) ends.push({ flow: packet, verdict: 'return' })
    return ends
  }

  /** What becomes of a packet that matches, or does by chance; undefined for one that passes by. */
  #rule(place: Place, chain: Chain, rule: Rule, flow: Flow, path: readonly string[]): RuleEnd[] | undefined {
    const parsed = knownRule(rule.spec)
    if (this.matchingOnly && parsed && isForOther(parsed, flow)) return undefined
    const { chance, reason } = parsed
      ? judgeRule(parsed, flow, this.context)
      : { chance: 0, reason: 'the rule cannot be read, taken as no match' }
    const passes = !parsed || chance === 0
    if (passes && this.matchingOnly) return undefined
    const step: Step = {
      hook: place.hook,
      table: place.name,
      chain: chain.name,
      rule: lineOf(chain, rule),
      verdict: 'NO MATCH',
      matched: !passes,
      reason,
      probability: passes ? flow.probability : flow.probability * chance,
      packet: describeFlow(flow),
      path,
    }
    if (passes) {
      this.record(step)
      return undefined
    }
    const matching = chance === 1 ? flow : { ...flow, probability: flow.probability * chance }
    const passing: RuleEnd[] =
      chance === 1 ? [] : [{ flow: { ...flow, probability: flow.probability * (1 - chance) }, verdict: 'continue' }]
    const ends = this.#target(place, parsed, matching, step, path)
    return passing.length > 0 ? [...ends, ...passing] : ends
  }

  /** `step` is that of the rule: what its target does with the packet is written into it. */
  #target(place: Place, { target }: ParsedRule, flow: Flow, step: Step, path: readonly string[]): RuleEnd[] {
    const { reason } = step
    if (!target) {
      step.verdict = 'CONTINUE'
      step.reason = joinReasons(reason, 'a rule without target, it only counts')
      this.record(step)
      return [{ flow, verdict: 'continue' }]
    }
    const called = place.table.get(target.name)
    if (!called) {
      const effect = applyTarget(target, flow, place.hook, this.context)
      step.verdict = target.name
      step.reason = joinReasons(reason, effect.summary)
      this.record(step)
      return [{ flow: effect.flow, verdict: effect.verdict, by: step }]
    }
    step.verdict = target.goto ? 'GOTO' : 'JUMP'
    step.target = target.name
    step.reason = joinReasons(reason, `to ${target.name}`)
    this.record(step)
    if (path.includes(target.name)) {
      throw new CircleError(
        `the chains of table ${place.name} call each other in a circle: ${[...path, target.name].join(' → ')}`,
      )
    }
    const returned = target.goto ? 'return' : 'continue'
    const ends = this.#chain(place, called, flow, [...path, target.name])
    return ends.map((end) => (end.verdict === 'return' ? { flow: end.flow, verdict: returned } : end))
  }
}

interface Place {
  hook: Hook
  name: string
  table: Table
}

type RuleEnd = Omit<ChainEnd, 'verdict'> & { verdict: ChainEnd['verdict'] | 'continue' }

/** As iptables-save prints it. */
function lineOf(chain: Chain, rule: Rule): string {
  return rule.spec === '' ? `-A ${chain.name}` : `-A ${chain.name} ${rule.spec}`
}

export function joinReasons(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one}; ${other}`
}
