import type { Chain, Rule, Table } from '../iptables-save.ts'
import type { ParsedRule } from '../rule.ts'
import { knownRule } from '../rule-text.ts'
import { applyTarget } from './apply-target.ts'
import { describeFlow, type Flow, mergeFlows } from './flow.ts'
import { isForOther, judgeRule } from './judge-rule.ts'
import type { TraceContext } from './matches.ts'
import type { Hook, Step } from './step.ts'

/** Rules jump in a cycle. The kernel rejects such a table, so the text was edited manually. */
export class CircleError extends Error {
  override name = 'CircleError'
}

/** The end of a packet in a table or base chain; `by` is the step that decided. */
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

/** Traces packets through the rules of one node. Every evaluated rule, or only those that match, is passed to `record`. */
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

/** Traces packets through the tables of one node. If a rule matches randomly, both paths are followed, each with its probability. */
export class TableWalk extends Walk {
  /** Evaluates the built-in chain of a hook including its policy. A table without that chain accepts. */
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

  /** The results for a packet that matches, certainly or randomly; undefined if it does not match. */
  #rule(place: Place, chain: Chain, rule: Rule, flow: Flow, path: readonly string[]): RuleEnd[] | undefined {
    const parsed = knownRule(rule.spec)
    if (this.matchingOnly && parsed && isForOther(parsed, flow)) return undefined
    const { chance, reason } = parsed
      ? judgeRule(parsed, flow, this.context)
      : { chance: 0, reason: 'the rule cannot be parsed and counts as no match' }
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

  /** Applies the rule's target and records its effect in `step`. */
  #target(place: Place, { target }: ParsedRule, flow: Flow, step: Step, path: readonly string[]): RuleEnd[] {
    const { reason } = step
    if (!target) {
      step.verdict = 'CONTINUE'
      step.reason = joinReasons(reason, 'a rule without a target only counts')
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
        `the chains of table ${place.name} jump to each other in a cycle: ${[...path, target.name].join(' → ')}`,
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
