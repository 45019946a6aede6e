import { printEndpoint } from '../ip-address.ts'
import {
  type NftElements,
  type NftExpression,
  type NftStatement,
  parseNftRule,
  parseVerdict,
} from '../nft-rule.ts'
import { type NftRule, type NftTable, nftTitle } from '../nft-table.ts'
import { applyTarget, marked } from './apply-target.ts'
import type { Flow } from './flow.ts'
import { readMark, type TraceContext } from './judge-rule.ts'
import { covers, lookUp, type NftPlace, valuesOf } from './nft-values.ts'
import type { Hook } from './step.ts'
import {
  joinReasons,
  noMatch,
  type RuleEffect,
  type RuleLanguage,
  UNREADABLE,
} from './walk-chain.ts'

/** A packet after some statements of a rule; without a verdict the next statement is evaluated. */
interface StatementState extends Pick<RuleEffect, 'flow' | 'change'> {
  reasons: string[]
  verdict?: RuleEffect['verdict']
  chain?: string
  /** The name of the deciding statement in a step, if it is not the verdict. */
  name?: string
}

interface NftWalkPlace extends NftPlace, TraceContext {
  hook: Hook
}

/** The rules of a table of nf_tables. */
export const nftablesRules = (table: NftTable, context: TraceContext): RuleLanguage<NftRule> => ({
  table: nftTitle(table),
  rulesOf: (chain) => table.chains.get(chain)?.rules,
  print: ({ text }) => text,
  evaluate({ text }, flow, hook) {
    const statements = parseNftRule(text)
    if (!statements) return [noMatch(flow, UNREADABLE)]
    const place = { hook, table, ...context }
    let states: StatementState[] = [{ flow, reasons: [] }]
    for (const statement of statements)
      states = states.flatMap((state) =>
        state.verdict ? [state] : evaluateStatement(place, statement, state),
      )
    return states.map(
      ({ reasons, verdict = 'continue', name = verdict.toUpperCase(), ...state }) => {
        const { chain } = state
        const to = chain === undefined || table.chains.has(chain) ? '' : ', which does not exist'
        const reason = [...reasons, ...(chain === undefined ? [] : [`to ${chain}${to}`])].reduce(
          joinReasons,
          '',
        )
        return { ...state, verdict, name, reason }
      },
    )
  },
})

/**
 * A map without an element for the packet: the kernel goes to the next rule (NFT_BREAK of
 * nft_lookup).
 */
const NO_VALUE = 'there is no value for this packet'

function evaluateStatement(
  place: NftWalkPlace,
  statement: NftStatement,
  state: StatementState,
): StatementState[] {
  const { flow } = state
  const because = (reason: string, more: Partial<StatementState> = {}): StatementState => ({
    ...state,
    ...more,
    reasons: reason === '' ? state.reasons : [...state.reasons, reason],
  })
  const changed = (change: string, flow: Flow): StatementState =>
    because(change, {
      flow,
      change: state.change === undefined ? change : `${state.change}, ${change}`,
    })
  switch (statement.kind) {
    case 'note':
      return [state]
    case 'notrack':
      return [changed('not tracked', { ...flow, tracked: false })]
    case 'verdict':
      return [{ ...state, ...statement }]
    case 'match':
      return valuesOf(place, statement.left, flow).map(({ value, flow: taken }) => {
        const matches = value !== undefined && holds(place, statement, value, taken)
        const reason = `${describe(statement.left)} ${value === undefined ? 'has no value here' : `is ${value || 'none'}`}`
        return because(reason, matches ? { flow: taken } : { flow: taken, verdict: 'no match' })
      })
    case 'vmap':
      return valuesOf(place, statement.key, flow).map(({ value, flow: taken }) => {
        const found = value === undefined ? undefined : lookUp(place.table, statement.data, value)
        const verdict = found === undefined ? undefined : parseVerdict(found)
        const missed = `${value ?? 'the packet'} is not in ${elementsName(statement.data)}`
        if (!verdict) return because(missed, { flow: taken, verdict: 'no match' })
        return because(chosenBy(statement.key, value), { ...verdict, flow: taken })
      })
    case 'mark':
      return valuesOf(place, statement.value, flow).map(({ value, flow: taken }) => {
        if (value === undefined) return because(NO_VALUE, { flow: taken, verdict: 'no match' })
        const { change, flow } = marked(
          taken,
          statement.of === 'ct' ? 'connmark' : 'mark',
          readMark(value)[0],
        )
        return changed(change, flow)
      })
    case 'update':
      return valuesOf(place, statement.key, flow).map(({ value }) =>
        because(`${value} is added to the set ${statement.set}`),
      )
    case 'nat':
      return translate(place, statement, state)
  }
}

function translate(
  place: NftWalkPlace,
  { type, to }: Extract<NftStatement, { kind: 'nat' }>,
  state: StatementState,
): StatementState[] {
  const name = type.toUpperCase()
  const option = {
    dnat: '--to-destination',
    snat: '--to-source',
    redirect: '--to-ports',
    masquerade: '',
  }[type]
  const targets = to ? valuesOf(place, to, state.flow) : [{ value: '', flow: state.flow }]
  return targets.map(({ value, flow }) => {
    if (value === undefined)
      return { ...state, flow, verdict: 'no match', reasons: [...state.reasons, NO_VALUE] }
    const [address = '', port] = value.split(' . ')
    const text = (port === undefined ? address : printEndpoint(address, Number(port))).replace(
      /^:(?=[\d-]+$)/,
      '',
    )
    const options = new Map(to ? [[option, { negated: false, value: [text] }]] : [])
    const effect = applyTarget({ name, goto: false, options }, flow, place.hook, place)
    // Statements before it in the same rule changed the packet, too:
    // `meta mark set 0x4000 dnat to …`.
    const change = [state.change ?? [], effect.change ?? []].flat().join(', ')
    const reasons = [...state.reasons, effect.change ?? '']
    return { ...effect, ...(change !== '' && { change }), reasons, name }
  })
}

function holds(
  place: NftWalkPlace,
  { right, operator }: Extract<NftStatement, { kind: 'match' }>,
  value: string,
  flow: Flow,
): boolean {
  const isEqual =
    'kind' in right
      ? valuesOf(place, right, flow).some(
          (one) => one.value !== undefined && covers(one.value, value),
        )
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

function describe(expression: NftExpression): string {
  if (expression.kind === 'literal' || expression.kind === 'selector') return expression.text
  if (expression.kind === 'concat') return expression.parts.map(describe).join(' . ')
  if (expression.kind === 'binary')
    return `${describe(expression.left)} ${expression.operator} ${describe(expression.right)}`
  return expression.kind === 'number' ? 'the number' : describe(expression.key)
}

const chosenBy = (key: NftExpression, value: string | undefined): string =>
  key.kind === 'number' ? `by chance, number ${value} of ${key.modulus}` : `${value}`

const elementsName = (elements: NftElements): string =>
  'name' in elements ? elements.name : 'the map'
