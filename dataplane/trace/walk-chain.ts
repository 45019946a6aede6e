import type { Chain, Rule, Table } from '../iptables-save.ts'
import { knownRule, type ParsedRule } from '../rule.ts'
import { applyTarget } from './apply-target.ts'
import { type Flow, mergeFlows } from './flow.ts'
import { isForOther, judgeRule, type TraceContext } from './judge-rule.ts'
import { type Hook, type Step, stepOf } from './step.ts'

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

interface ChainEnd {
  flow: Flow
  verdict: HookEnd['verdict'] | 'return'
  by?: Step
}

/** What a rule does to a packet. */
export type RuleEnd = Omit<ChainEnd, 'verdict'> & { verdict: ChainEnd['verdict'] | 'continue' }

/**
 * Traces packets through the rules of one node. If a rule matches randomly, both paths are followed, each with its probability.
 * Every evaluated rule, or only those that match, is passed to `record`.
 */
export abstract class Walk {
  protected readonly context: TraceContext
  protected readonly record: (step: Step) => void
  protected readonly matchingOnly: boolean

  constructor(context: TraceContext, record: (step: Step) => void, matchingOnly = false) {
    this.context = context
    this.record = record
    this.matchingOnly = matchingOnly
  }

  /**
   * Takes a packet through the rules of a chain.
   * @param evaluate what a rule does to a packet; undefined if it does not match
   */
  protected passRules<AnyRule>(
    rules: readonly AnyRule[],
    flow: Flow,
    evaluate: (rule: AnyRule, flow: Flow) => RuleEnd[] | undefined,
  ): ChainEnd[] {
    const ends: ChainEnd[] = []
    let alive = [flow]
    for (const rule of rules) {
      const next: Flow[] = []
      let hasMatched = false
      for (const packet of alive) {
        const met = evaluate(rule, packet)
        hasMatched ||= met !== undefined
        if (!met) next.push(packet)
        for (const end of met ?? []) {
          if (end.verdict === 'continue') next.push(end.flow)
          else ends.push({ ...end, verdict: end.verdict })
        }
      }
      if (hasMatched) alive = mergeFlows(next)
      if (alive.length === 0) return ends
    }
    return [...ends, ...alive.map((packet): ChainEnd => ({ flow: packet, verdict: 'return' }))]
  }

  /** The ends of a base chain: its policy decides about packets that return from it. */
  protected applyPolicy(ends: readonly ChainEnd[], policyStep: (flow: Flow) => Step): HookEnd[] {
    return ends.map(({ flow, verdict, by }): HookEnd => {
      if (verdict !== 'return' && by) return { flow, verdict, by }
      const step = policyStep(flow)
      this.record(step)
      return { flow, verdict: step.verdict === 'DROP' ? 'drop' : 'accept', by: step }
    })
  }

  /**
   * The ends of a packet that a rule sends to another chain. From a goto it does not come back.
   * @param path the chains that led to the rule
   */
  protected callChain(
    { table, target = '', path = [] }: Step,
    isGoto: boolean,
    enter: (path: string[]) => ChainEnd[],
  ): RuleEnd[] {
    if (path.includes(target)) {
      const circle = [...path, target].join(' → ')
      throw new CircleError(`the chains of table ${table} jump to each other in a cycle: ${circle}`)
    }
    return enter([...path, target]).map((end) =>
      end.verdict === 'return' ? { flow: end.flow, verdict: isGoto ? 'return' : 'continue' } : end,
    )
  }
}

/** The step at the end of a base chain. */
export const policyStep = (place: Pick<Step, 'hook' | 'table' | 'chain' | 'rule' | 'verdict'>, flow: Flow): Step =>
  stepOf({ ...place, reason: 'the end of the chain: its policy' }, flow)

interface Place {
  hook: Hook
  name: string
  table: Table
}

/** Traces packets through the tables of iptables. */
export class TableWalk extends Walk {
  /** Evaluates the built-in chain of a hook including its policy. A table without that chain accepts. */
  table(hook: Hook, name: string, table: Table | undefined, flow: Flow): HookEnd[] {
    const chain = table?.get(hook)
    const atEnd = (verdict: string) => (flow: Flow) =>
      policyStep({ hook, table: name, chain: hook, rule: `-P ${hook} ${verdict}`, verdict }, flow)
    if (!table || !chain) return [{ flow, verdict: 'accept', by: atEnd('ACCEPT')(flow) }]
    return this.applyPolicy(this.#chain({ hook, name, table }, chain, flow, [hook]), atEnd(chain.policy))
  }

  #chain(place: Place, chain: Chain, flow: Flow, path: readonly string[]): ChainEnd[] {
    return this.passRules(chain.rules, flow, (rule, packet) => this.#rule(place, chain, rule, packet, path))
  }

  /** The results for a packet that matches, certainly or randomly; undefined if it does not match. */
  #rule(place: Place, chain: Chain, { spec }: Rule, flow: Flow, path: readonly string[]): RuleEnd[] | undefined {
    const parsed = knownRule(spec)
    if (this.matchingOnly && parsed && isForOther(parsed, flow)) return undefined
    const { chance, reason } = parsed
      ? judgeRule(parsed, flow, this.context)
      : { chance: 0, reason: 'the rule cannot be parsed and counts as no match' }
    const passes = !parsed || chance === 0
    if (passes && this.matchingOnly) return undefined
    const { hook, name } = place
    const rule = spec === '' ? `-A ${chain.name}` : `-A ${chain.name} ${spec}`
    const step = stepOf({ hook, table: name, chain: chain.name, rule, verdict: 'NO MATCH', reason, path }, flow)
    if (passes) {
      step.matched = false
      this.record(step)
      return undefined
    }
    step.probability *= chance
    const matching = chance === 1 ? flow : { ...flow, probability: step.probability }
    const ends = this.#target(place, parsed, matching, step)
    if (chance === 1) return ends
    return [...ends, { flow: { ...flow, probability: flow.probability * (1 - chance) }, verdict: 'continue' }]
  }

  /** Applies the rule's target and records its effect in `step`. */
  #target(place: Place, { target }: ParsedRule, flow: Flow, step: Step): RuleEnd[] {
    const record = (verdict: string, effect: string) => {
      step.verdict = verdict
      step.reason = joinReasons(step.reason, effect)
      this.record(step)
    }
    if (!target) {
      record('CONTINUE', 'a rule without a target only counts')
      return [{ flow, verdict: 'continue' }]
    }
    const called = place.table.get(target.name)
    if (!called) {
      const effect = applyTarget(target, flow, place.hook, this.context)
      record(target.name, effect.summary)
      return [{ flow: effect.flow, verdict: effect.verdict, by: step }]
    }
    step.target = target.name
    record(target.goto ? 'GOTO' : 'JUMP', `to ${target.name}`)
    return this.callChain(step, target.goto, (path) => this.#chain(place, called, flow, path))
  }
}

export function joinReasons(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one}; ${other}`
}
