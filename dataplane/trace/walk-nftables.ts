import { contains, familyOf, parsePrefix, printEndpoint } from '../ip-address.ts'
import { type NftElements, type NftExpression, type NftStatement, parseNftRule, parseVerdict } from '../nft-rule.ts'
import type { NftChain, NftRule, NftTable } from '../nft-table.ts'
import { applyTarget } from './apply-target.ts'
import { describeFlow, type Flow, mergeFlows } from './flow.ts'
import { connectionStates, readMark, type TraceContext } from './matches.ts'
import type { Hook, Step } from './step.ts'
import { type ChainEnd, CircleError, type HookEnd, joinReasons } from './walk-chain.ts'

/** A packet after some statements of a rule; without a verdict the next statement is evaluated. */
interface State {
  flow: Flow
  reasons: string[]
  verdict?: 'accept' | 'drop' | 'return' | 'continue' | 'reject' | 'jump' | 'goto' | 'break'
  chain?: string
  /** The name of the deciding statement in a step, if it is not the verdict. */
  name?: string
}

interface Place {
  hook: Hook
  table: NftTable
}

type RuleEnd = Omit<ChainEnd, 'verdict'> & { verdict: ChainEnd['verdict'] | 'continue' }

/**
 * Traces packets through the chains of nf_tables on one node. Every evaluated rule, or only those that match,
 * is passed to `record`.
 */
export class NftWalk {
  readonly #context: TraceContext
  readonly #record: (step: Step) => void
  readonly #matchingOnly: boolean

  constructor(context: TraceContext, record: (step: Step) => void, matchingOnly = false) {
    this.#context = context
    this.#record = record
    this.#matchingOnly = matchingOnly
  }

  /**
   * Evaluates a base chain including its policy. Throws CircleError for chains that jump to each other in a
   * cycle.
   */
  baseChain(hook: Hook, table: NftTable, name: string, chain: NftChain, flow: Flow): HookEnd[] {
    const place = { hook, table }
    return this.#chain(place, name, chain, flow, [name]).map((end): HookEnd => {
      if (end.verdict !== 'return' && end.by) return { flow: end.flow, verdict: end.verdict, by: end.by }
      const policy = chain.base?.policy ?? 'accept'
      const by = stepOf(place, name, `policy ${policy}`, end.flow, policy.toUpperCase())
      by.reason = 'the end of the chain: its policy'
      this.#record(by)
      return { flow: end.flow, verdict: policy, by }
    })
  }

  #chain(place: Place, name: string, chain: NftChain, flow: Flow, path: readonly string[]): ChainEnd[] {
    const ends: ChainEnd[] = []
    let alive = [flow]
    for (const rule of chain.rules) {
      const next: Flow[] = []
      for (const packet of alive)
        for (const end of this.#rule(place, name, rule, packet, path)) {
          if (end.verdict === 'continue') next.push(end.flow)
          else ends.push({ ...end, verdict: end.verdict })
        }
      alive = mergeFlows(next)
    }
    return [...ends, ...alive.map((packet): ChainEnd => ({ flow: packet, verdict: 'return' }))]
  }

  #rule(place: Place, chain: string, { text }: NftRule, flow: Flow, path: readonly string[]): RuleEnd[] {
    const statements = parseNftRule(text)
    const states: State[] = statements
      ? this.#evaluate(place, statements, flow)
      : [{ flow, reasons: ['the rule cannot be parsed and counts as no match'], verdict: 'break' }]
    return states.flatMap((state): RuleEnd[] => {
      const { verdict = 'continue' } = state
      const step = stepOf(place, chain, text, flow, state.name ?? verdict.toUpperCase())
      step.probability = state.flow.probability
      step.path = path
      step.reason = state.reasons.reduce(joinReasons, '')
      step.matched = verdict !== 'break'
      if (verdict === 'break') {
        step.verdict = 'NO MATCH'
        if (!this.#matchingOnly) this.#record(step)
        return [{ flow: state.flow, verdict: 'continue' }]
      }
      if (verdict === 'jump' || verdict === 'goto') return this.#call(place, verdict, state, step, path)
      this.#record(step)
      return [{ flow: state.flow, verdict, by: step }]
    })
  }

  #call(place: Place, verdict: 'jump' | 'goto', { flow, chain = '' }: State, step: Step, path: readonly string[]) {
    const called = place.table.chains.get(chain)
    step.target = chain
    step.reason = joinReasons(step.reason, called ? `to ${chain}` : `to ${chain}, which does not exist`)
    this.#record(step)
    if (path.includes(chain))
      throw new CircleError(
        `the chains of table ${nameOf(place.table)} jump to each other in a cycle: ${[...path, chain].join(' → ')}`,
      )
    const returned = verdict === 'goto' ? 'return' : 'continue'
    const ends = called ? this.#chain(place, chain, called, flow, [...path, chain]) : []
    if (!called) return [{ flow, verdict: returned } as const]
    return ends.map((end): RuleEnd => (end.verdict === 'return' ? { flow: end.flow, verdict: returned } : end))
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
      case 'verdict': {
        const { verdict } = statement
        return [{ ...state, verdict: verdict.kind, ...('chain' in verdict && { chain: verdict.chain }) }]
      }
      case 'match':
        return this.#values(place, statement.left, flow).map(({ value, flow: taken }) => {
          const holds = value !== undefined && this.#holds(place, statement, value, taken)
          const reason = `${describe(statement.left)} ${value === undefined ? 'has no value here' : `is ${value || 'none'}`}`
          return because(reason, holds ? { flow: taken } : { flow: taken, verdict: 'break' })
        })
      case 'vmap':
        return this.#values(place, statement.key, flow).map(({ value, flow: taken }) => {
          const found = value === undefined ? undefined : lookUp(place.table, statement.data, value)
          const verdict = found === undefined ? undefined : parseVerdict(found)
          if (!verdict)
            return because(`${value ?? 'the packet'} is not in ${titleOf(statement.data)}`, {
              flow: taken,
              verdict: 'break',
            })
          const chain = 'chain' in verdict ? { chain: verdict.chain } : {}
          return because(chosenBy(statement.key, value), { flow: taken, verdict: verdict.kind, ...chain })
        })
      case 'mark':
        return this.#values(place, statement.value, flow).map(({ value, flow: taken }) => {
          const mark = readMark(value ?? '0')[0]
          const summary = `${statement.of === 'ct' ? 'connection mark' : 'mark'} becomes 0x${mark.toString(16)}`
          return because(summary, { flow: statement.of === 'ct' ? { ...taken, connmark: mark } : { ...taken, mark } })
        })
      case 'update':
        return this.#values(place, statement.key, flow).map(({ value }) =>
          because(`${value} is added to the set ${statement.set}`),
        )
      case 'nat':
        return this.#translate(place, statement, state)
    }
  }

  #translate(place: Place, { type, to }: Extract<NftStatement, { kind: 'nat' }>, state: State): State[] {
    const name = type.toUpperCase()
    const option = { dnat: '--to-destination', snat: '--to-source', redirect: '--to-ports', masquerade: '' }[type]
    const targets = to ? this.#values(place, to, state.flow) : [{ value: '', flow: state.flow }]
    return targets.map(({ value = '', flow }) => {
      const [address = '', port] = value.split(' . ')
      const text = (port === undefined ? address : printEndpoint(address, Number(port))).replace(/^:(?=\d+$)/, '')
      const options = new Map(to ? [[option, { negated: false, value: [text] }]] : [])
      const effect = applyTarget({ name, goto: false, options }, flow, place.hook, this.#context)
      return { flow: effect.flow, reasons: [...state.reasons, effect.summary], verdict: 'accept', name }
    })
  }

  /** The possible values of an expression for the packet, each with its probability. */
  #values(place: Place, expression: NftExpression, flow: Flow): { value: string | undefined; flow: Flow }[] {
    switch (expression.kind) {
      case 'literal':
        return [{ value: expression.text, flow }]
      case 'selector':
        return [{ value: this.#selected(expression.text, flow), flow }]
      case 'number': {
        const probability = flow.probability / expression.modulus
        return Array.from({ length: expression.modulus }, (_, number) => {
          return { value: `${number + expression.offset}`, flow: { ...flow, probability } }
        })
      }
      case 'concat':
        return expression.parts.reduce<{ value: string | undefined; flow: Flow }[]>(
          (before, part, index) =>
            before.flatMap(({ value: first, flow: taken }) =>
              this.#values(place, part, taken).map(({ value, flow: next }) => {
                const isWhole = first !== undefined && value !== undefined
                return { value: isWhole ? (index === 0 ? value : `${first} . ${value}`) : undefined, flow: next }
              }),
            ),
          [{ value: '', flow }],
        )
      case 'binary':
        return this.#values(place, expression.left, flow).flatMap(({ value: left, flow: taken }) =>
          this.#values(place, expression.right, taken).map(({ value: right, flow: next }) => {
            const isWhole = left !== undefined && right !== undefined
            return { value: isWhole ? combine(expression.operator, left, right) : undefined, flow: next }
          }),
        )
      case 'map':
        return this.#values(place, expression.key, flow).map(({ value, flow: taken }) => ({
          value: value === undefined ? undefined : lookUp(place.table, expression.data, value),
          flow: taken,
        }))
    }
  }

  /**
   * The first packet's value of `ip saddr`, `meta mark`, …; undefined if it has none, or if the selector is
   * not modelled.
   */
  #selected(selector: string, flow: Flow): string | undefined {
    const [first = '', ...rest] = selector.split(' ')
    const key = rest.join(' ')
    const isIPv4 = familyOf(flow.destination) === 'ipv4'
    if (first === 'fib' && (key === 'daddr type' || key === 'saddr type')) {
      const address = key === 'daddr type' ? flow.destination : flow.source
      return this.#context.network.addressType(address).toLowerCase()
    }
    if (key === 'dport') return first === 'th' || first === flow.protocol ? `${flow.port}` : undefined
    if (first === 'ip' && !isIPv4) return undefined
    if (first === 'ip6' && isIPv4) return undefined
    const { original } = flow
    const states = connectionStates(flow)
    const values: Record<string, string | undefined> = {
      saddr: flow.source,
      daddr: flow.destination,
      protocol: flow.protocol,
      nexthdr: flow.protocol,
      version: isIPv4 ? '4' : '6',
      'meta l4proto': flow.protocol,
      'meta mark': hexadecimal(flow.mark),
      'meta nfproto': isIPv4 ? 'ipv4' : 'ipv6',
      'meta protocol': isIPv4 ? 'ip' : 'ip6',
      'ct mark': hexadecimal(flow.connmark),
      'ct state': states[0]?.toLowerCase(),
      'ct status': states.slice(1).join(',').toLowerCase(),
      'ct direction': 'original',
      'ct original saddr': original.source,
      'ct original daddr': original.destination,
      'ct original ip saddr': original.source,
      'ct original ip daddr': original.destination,
      'ct original ip6 saddr': original.source,
      'ct original ip6 daddr': original.destination,
      'ct original proto-dst': `${original.port}`,
      iif: flow.inInterface ?? '',
      iifname: flow.inInterface ?? '',
      oif: flow.outInterface ?? '',
      oifname: flow.outInterface ?? '',
    }
    return values[first === 'ip' || first === 'ip6' ? key : selector]
  }

  #holds(
    { table }: Place,
    { right, operator }: Extract<NftStatement, { kind: 'match' }>,
    value: string,
    flow: Flow,
  ): boolean {
    if ('name' in right && this.#context.visited.has(right.name)) return operator === '=='
    const isEqual =
      'kind' in right
        ? this.#values({ table, hook: 'PREROUTING' }, right, flow).some(
            (one) => one.value !== undefined && covers(one.value, value),
          )
        : lookUp(table, right, value) !== undefined
    if (operator === '==') return isEqual
    if (operator === '!=') return !isEqual
    const bound = Number('kind' in right && right.kind === 'literal' ? right.text : Number.NaN)
    const compare: Record<string, boolean> = {
      '<': Number(value) < bound,
      '>': Number(value) > bound,
      '<=': Number(value) <= bound,
      '>=': Number(value) >= bound,
    }
    return compare[operator] ?? false
  }
}

const nameOf = ({ family, name }: NftTable): string => `${family} ${name}`

const hexadecimal = (value: number): string => `0x${value.toString(16).padStart(8, '0')}`

function stepOf({ hook, table }: Place, chain: string, rule: string, flow: Flow, verdict: string): Step {
  const { probability } = flow
  return {
    hook,
    table: nameOf(table),
    chain,
    rule,
    verdict,
    matched: true,
    reason: '',
    probability,
    packet: describeFlow(flow),
  }
}

function combine(operator: '&' | '|' | '^', left: string, right: string): string {
  const [a, b] = [Number(left), Number(right)]
  return hexadecimal((operator === '&' ? a & b : operator === '|' ? a | b : a ^ b) >>> 0)
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

const titleOf = (elements: NftElements): string => ('name' in elements ? elements.name : 'the map')

/** The value of the element that contains the key, `''` for a set; undefined if there is none. */
function lookUp(table: NftTable, data: NftElements, key: string): string | undefined {
  if (!('name' in data)) return data.elements.find(([element]) => covers(element, key))?.[1]
  const map = table.maps.get(data.name)?.elements
  const exact = map?.get(key)
  if (exact !== undefined) return exact
  const set = table.sets.get(data.name)?.elements
  if (set?.has(key)) return ''
  if (map) return [...map].find(([element]) => covers(element, key))?.[1]
  return set && [...set].some((element) => covers(element, key)) ? '' : undefined
}

/**
 * Whether a set element contains a value: each part is equal, in a prefix or range, one of the flags, or
 * matches `veth*`.
 */
function covers(element: string, value: string): boolean {
  if (element === value || element === '*') return true
  const parts = element.split(' . ')
  const values = value.split(' . ')
  if (parts.length > 1)
    return parts.length === values.length && parts.every((part, index) => covers(part, values[index] ?? ''))
  if (element.endsWith('*')) return value.startsWith(element.slice(0, -1))
  if (value.includes(',')) return value.split(',').includes(element)
  if (familyOf(value) !== undefined) return inRange(element, value)
  if (!/^(0x[0-9a-f]+|\d+)$/.test(value)) return false
  const [low = '', high = low] = element.split('-')
  return Number(value) >= Number(low) && Number(value) <= Number(high)
}

function inRange(element: string, address: string): boolean {
  const [low = '', high] = element.split('-')
  if (high === undefined) return contains(low, address)
  const [from, at, to] = [low, address, high].map((text) => parsePrefix(text)?.bits)
  return from !== undefined && at !== undefined && to !== undefined && from <= at && at <= to
}
