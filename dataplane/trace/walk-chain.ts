import type { Rule, Table } from '../iptables-save.ts'
import { Refusal } from '../refusal.ts'
import { knownRule, type Target } from '../rule.ts'
import { applyTarget } from './apply-target.ts'
import { describeFlow, type Flow, mergeFlows } from './flow.ts'
import { isForOther, judgeRule, type TraceContext } from './judge-rule.ts'
import { rulesForDestination } from './rules-for-destination.ts'
import { type Hook, type TraceStep, traceStep } from './step.ts'

/** Rules jump in a cycle. The kernel rejects such a table, so the text was edited manually. */
export class CircleError extends Refusal {
  override name = 'CircleError'
}

/** The end of a packet in a base chain; `by` is the step that decided. */
export interface HookEnd {
  flow: Flow
  verdict: 'accept' | 'drop' | 'reject'
  by: TraceStep
}

interface ChainEnd {
  flow: Flow
  verdict: HookEnd['verdict'] | 'return' | 'continue'
  by?: TraceStep
}

/** What a rule does to a packet, or to a share of such packets. */
export interface RuleEffect extends Pick<TraceStep, 'reason' | 'change'> {
  flow: Flow
  verdict: ChainEnd['verdict'] | 'jump' | 'goto' | 'no match'
  /** The name of the target or statement in a step; without one there is no step. */
  name: string
  /** The chain of a jump or goto. */
  chain?: string
}

/** The rules of one table, of iptables or nf_tables. */
export interface RuleLanguage<AnyRule> {
  /** The name of the table in steps. */
  table: string
  /** The rules of a chain that are evaluated for a packet to this destination. */
  rulesOf: (chain: string, destination: string) => readonly AnyRule[] | undefined
  print: (rule: AnyRule, chain: string) => string
  /** Undefined for a rule that does not match, if the reason is not recorded. */
  evaluate: (rule: AnyRule, flow: Flow, hook: Hook) => RuleEffect[] | undefined
}

/**
 * Traces packets through the chains of a table. If a rule matches randomly, both paths are
 * followed, each with its probability. Every evaluated rule, or only those that match, is passed to
 * `record`.
 */
export class ChainWalk<AnyRule> {
  readonly #language: RuleLanguage<AnyRule>
  readonly #hook: Hook
  readonly #record: (step: TraceStep) => void
  readonly #matchingOnly: boolean

  constructor(
    language: RuleLanguage<AnyRule>,
    hook: Hook,
    record: (step: TraceStep) => void,
    matchingOnly: boolean,
  ) {
    this.#language = language
    this.#hook = hook
    this.#record = record
    this.#matchingOnly = matchingOnly
  }

  /**
   * Evaluates a base chain; its policy decides about packets that return from it. Throws
   * CircleError.
   * @param policy the policy as a step shows it
   */
  baseChain(chain: string, policy: Pick<TraceStep, 'rule' | 'verdict'>, entering: Flow): HookEnd[] {
    return this.#chain(chain, entering, [chain]).map(({ flow, verdict, by }): HookEnd => {
      if (verdict !== 'return' && verdict !== 'continue' && by) return { flow, verdict, by }
      const reason = 'the end of the chain: its policy'
      const step = traceStep(
        { hook: this.#hook, table: this.#language.table, chain, ...policy, reason },
        flow,
      )
      this.#record(step)
      return { flow, verdict: policy.verdict === 'DROP' ? 'drop' : 'accept', by: step }
    })
  }

  #chain(chain: string, entering: Flow, path: readonly string[]): ChainEnd[] {
    const ends: ChainEnd[] = []
    let alive = [entering]
    for (const rule of this.#language.rulesOf(chain, entering.destination) ?? []) {
      const next: Flow[] = []
      for (const flow of alive) this.#rule(chain, rule, flow, path, next, ends)
      alive = next.some((flow, at) => flow !== alive[at]) ? mergeFlows(next) : next
      if (alive.length === 0) return ends
    }
    return [...ends, ...alive.map((flow): ChainEnd => ({ flow, verdict: 'return' }))]
  }

  /** Evaluates one rule: packets that continue go to `next`, the others to `ends`. */
  #rule(
    chain: string,
    rule: AnyRule,
    flow: Flow,
    path: readonly string[],
    next: Flow[],
    ends: ChainEnd[],
  ): void {
    const effects = this.#language.evaluate(rule, flow, this.#hook)
    if (!effects) {
      next.push(flow)
      return
    }
    for (const effect of effects)
      for (const end of this.#end(chain, rule, flow, effect, path))
        if (end.verdict === 'continue') next.push(end.flow)
        else ends.push(end)
  }

  #end(
    chain: string,
    rule: AnyRule,
    before: Flow,
    effect: RuleEffect,
    path: readonly string[],
  ): ChainEnd[] {
    const { flow, verdict, name, reason, change, chain: target } = effect
    const matched = verdict !== 'no match'
    if (name === '' || (!matched && this.#matchingOnly)) return [{ flow, verdict: 'continue' }]
    const { table, print } = this.#language
    const step: TraceStep = {
      hook: this.#hook,
      table,
      chain,
      rule: print(rule, chain),
      verdict: name,
      matched,
      reason,
      probability: flow.probability,
      packet: describeFlow(before),
      path,
    }
    if (change !== undefined) step.change = change
    if (target !== undefined) step.target = target
    this.#record(step)
    if (verdict === 'no match') return [{ flow, verdict: 'continue' }]
    if (verdict !== 'jump' && verdict !== 'goto') return [{ flow, verdict, by: step }]
    const longer = [...path, target ?? '']
    if (path.includes(target ?? ''))
      throw new CircleError(
        `the chains of table ${table} jump to each other in a cycle: ${longer.join(' → ')}`,
      )
    // From a goto a packet does not come back.
    return this.#chain(target ?? '', flow, longer).map((end) =>
      end.verdict === 'return'
        ? { flow: end.flow, verdict: verdict === 'goto' ? 'return' : 'continue' }
        : end,
    )
  }
}

export const noMatch = (flow: Flow, reason: string): RuleEffect => {
  return { flow, verdict: 'no match', name: 'NO MATCH', reason }
}
export const UNREADABLE = 'the rule cannot be parsed and counts as no match'

/** The rules of a table of iptables. */
export const iptablesRules = (
  table: string,
  chains: Table,
  context: TraceContext,
  matchingOnly: boolean,
): RuleLanguage<Rule> => ({
  table,
  rulesOf: (chain, destination) => {
    const rules = chains.get(chain)?.rules
    return rules && matchingOnly ? rulesForDestination(rules, destination) : rules
  },
  print: ({ spec }, chain) => (spec === '' ? `-A ${chain}` : `-A ${chain} ${spec}`),
  evaluate({ spec }, flow, hook) {
    const rule = knownRule(spec)
    if (!rule) return [noMatch(flow, UNREADABLE)]
    if (matchingOnly && isForOther(rule, flow)) return undefined
    const { chance, reason } = judgeRule(rule, flow, context)
    if (chance === 0) return [noMatch(flow, reason)]
    const share = (of: number): Flow =>
      of === 1 ? flow : { ...flow, probability: flow.probability * of }
    const effect = effectOf(rule.target, share(chance), hook)
    const effects = [{ ...effect, reason: joinReasons(reason, effect.reason) }]
    return chance === 1
      ? effects
      : [...effects, { flow: share(1 - chance), verdict: 'continue', name: '', reason: '' }]

    function effectOf(target: Target | undefined, flow: Flow, hook: Hook): RuleEffect {
      if (!target)
        return {
          flow,
          verdict: 'continue',
          name: 'CONTINUE',
          reason: 'a rule without a target only counts',
        }
      const { name, goto } = target
      if (!chains.has(name)) {
        const { remark = '', ...effect } = applyTarget(target, flow, hook, context)
        return { ...effect, name, reason: effect.change ?? remark }
      }
      const verdict = goto ? 'goto' : 'jump'
      return { flow, verdict, name: verdict.toUpperCase(), reason: `to ${name}`, chain: name }
    }
  },
})

export function joinReasons(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one}; ${other}`
}
