import { printEndpoint } from '../ip-address.ts'
import { type NftElements, type NftExpression, type NftStatement, parseNftRule, parseVerdict } from '../nft-rule.ts'
import { type NftChain, type NftRule, type NftTable, nftTitle } from '../nft-table.ts'
import { applyTarget, marked } from './apply-target.ts'
import type { Flow } from './flow.ts'
import { readMark } from './judge-rule.ts'
import { covers, lookUp, type NftPlace, valuesOf } from './nft-values.ts'
import { type Hook, type Step, stepOf } from './step.ts'
import { type HookEnd, joinReasons, policyStep, type RuleEnd, Walk } from './walk-chain.ts'

/** A packet after some statements of a rule; without a verdict the next statement is evaluated. */
interface State {
  flow: Flow
  reasons: string[]
  verdict?: 'accept' | 'drop' | 'return' | 'continue' | 'reject' | 'jump' | 'goto' | 'break'
  chain?: string
  /** The name of the deciding statement in a step, if it is not the verdict. */
  name?: string
}

interface Place extends NftPlace {
  hook: Hook
}

/** Traces packets through the chains of nf_tables on one node. */
export class NftWalk extends Walk {
  /** Evaluates a base chain including its policy. Throws CircleError for chains that jump to each other in a cycle. */
  baseChain(hook: Hook, table: NftTable, name: string, chain: NftChain, flow: Flow): HookEnd[] {
    const place = { hook, table, network: this.context.network }
    const policy = chain.base?.policy ?? 'accept'
    const end = { hook, table: nftTitle(table), chain: name, rule: `policy ${policy}`, verdict: policy.toUpperCase() }
    return this.applyPolicy(this.#chain(place, name, chain, flow, [name]), (packet) => policyStep(end, packet))
  }

  #chain(place: Place, name: string, chain: NftChain, flow: Flow, path: readonly string[]) {
    return this.passRules(chain.rules, flow, (rule, packet) => this.#rule(place, name, rule, packet, path))
  }

  #rule(place: Place, chain: string, { text }: NftRule, flow: Flow, path: readonly string[]): RuleEnd[] {
    const statements = parseNftRule(text)
    const states: State[] = statements
      ? this.#evaluate(place, statements, flow)
      : [{ flow, reasons: ['the rule cannot be parsed and counts as no match'], verdict: 'break' }]
    return states.flatMap((state): RuleEnd[] => {
      const { verdict = 'continue' } = state
      const matched = verdict !== 'break'
      const by = {
        hook: place.hook,
        table: nftTitle(place.table),
        chain,
        rule: text,
        verdict: matched ? (state.name ?? verdict.toUpperCase()) : 'NO MATCH',
        reason: state.reasons.reduce(joinReasons, ''),
        path,
      }
      const step: Step = { ...stepOf(by, flow), probability: state.flow.probability, matched }
      if (verdict === 'jump' || verdict === 'goto') return this.#call(place, verdict === 'goto', state, step)
      if (matched || !this.matchingOnly) this.record(step)
      return [verdict === 'break' ? { flow: state.flow, verdict: 'continue' } : { flow: state.flow, verdict, by: step }]
    })
  }

  #call(place: Place, isGoto: boolean, { flow, chain = '' }: State, step: Step): RuleEnd[] {
    const called = place.table.chains.get(chain)
    step.target = chain
    step.reason = joinReasons(step.reason, called ? `to ${chain}` : `to ${chain}, which does not exist`)
    this.record(step)
    return this.callChain(step, isGoto, (path) =>
      called ? this.#chain(place, chain, called, flow, path) : [{ flow, verdict: 'return' }],
    )
  }

  #evaluate(place: Place, statements: readonly NftStatement[], flow: Flow): State[] {
    let states: State[] = [{ flow, reasons: [] }]
    for (const statement of statements)
      states = states.flatMap((state) => (state.verdict ? [state] : this.#statement(place, statement, state)))
    return states
  }

  #statement(place: Place, statement: NftStatement, state: State): State[] {
    const { flow } = state
    const because = (reason: string, more: Partial<State> = {}): State => ({
      ...state,
      ...more,
      reasons: reason === '' ? state.reasons : [...state.reasons, reason],
    })
    switch (statement.kind) {
      case 'note':
        return [state]
      case 'notrack':
        return [because('not tracked', { flow: { ...flow, tracked: false } })]
      case 'verdict':
        return [{ ...state, ...statement }]
      case 'match':
        return valuesOf(place, statement.left, flow).map(({ value, flow: taken }) => {
          const holds = value !== undefined && this.#holds(place, statement, value, taken)
          const reason = `${describe(statement.left)} ${value === undefined ? 'has no value here' : `is ${value || 'none'}`}`
          return because(reason, holds ? { flow: taken } : { flow: taken, verdict: 'break' })
        })
      case 'vmap':
        return valuesOf(place, statement.key, flow).map(({ value, flow: taken }) => {
          const found = value === undefined ? undefined : lookUp(place.table, statement.data, value)
          const verdict = found === undefined ? undefined : parseVerdict(found)
          const missed = `${value ?? 'the packet'} is not in ${nameOf(statement.data)}`
          if (!verdict) return because(missed, { flow: taken, verdict: 'break' })
          return because(chosenBy(statement.key, value), { ...verdict, flow: taken })
        })
      case 'mark':
        return valuesOf(place, statement.value, flow).map(({ value, flow: taken }) => {
          const effect = marked(taken, statement.of === 'ct' ? 'connmark' : 'mark', readMark(value ?? '0')[0])
          return because(effect.summary, { flow: effect.flow })
        })
      case 'update':
        return valuesOf(place, statement.key, flow).map(({ value }) =>
          because(`${value} is added to the set ${statement.set}`),
        )
      case 'nat':
        return this.#translate(place, statement, state)
    }
  }

  #translate(place: Place, { type, to }: Extract<NftStatement, { kind: 'nat' }>, state: State): State[] {
    const name = type.toUpperCase()
    const option = { dnat: '--to-destination', snat: '--to-source', redirect: '--to-ports', masquerade: '' }[type]
    const targets = to ? valuesOf(place, to, state.flow) : [{ value: '', flow: state.flow }]
    return targets.map(({ value = '', flow }) => {
      const [address = '', port] = value.split(' . ')
      const text = (port === undefined ? address : printEndpoint(address, Number(port))).replace(/^:(?=\d+$)/, '')
      const options = new Map(to ? [[option, { negated: false, value: [text] }]] : [])
      const effect = applyTarget({ name, goto: false, options }, flow, place.hook, this.context)
      return { flow: effect.flow, reasons: [...state.reasons, effect.summary], verdict: 'accept', name }
    })
  }

  #holds(
    place: Place,
    { right, operator }: Extract<NftStatement, { kind: 'match' }>,
    value: string,
    flow: Flow,
  ): boolean {
    if ('name' in right && this.context.visited.has(right.name)) return operator === '=='
    const isEqual =
      'kind' in right
        ? valuesOf(place, right, flow).some((one) => one.value !== undefined && covers(one.value, value))
        : lookUp(place.table, right, value) !== undefined
    const bound = Number('kind' in right && right.kind === 'literal' ? right.text : Number.NaN)
    const compare: Record<string, boolean> = {
      '==': isEqual,
      '!=': !isEqual,
      '<': Number(value) < bound,
      '>': Number(value) > bound,
      '<=': Number(value) <= bound,
      '>=': Number(value) >= bound,
    }
    return compare[operator] ?? false
  }
}

function describe(expression: NftExpression): string {
  if (expression.kind === 'literal' || expression.kind === 'selector') return expression.text
  if (expression.kind === 'concat') return expression.parts.map(describe).join(' . ')
  if (expression.kind === 'binary')
    return `${describe(expression.left)} ${expression.operator} ${describe(expression.right)}`
  return expression.kind === 'number' ? 'the number' : describe(expression.key)
}

const chosenBy = (key: NftExpression, value: string | undefined): string =>
  key.kind === 'number' ? `by chance, number ${value} of ${key.modulus}` : `${value}`

const nameOf = (elements: NftElements): string => ('name' in elements ? elements.name : 'the map')
