// The path of a traced packet, for drawings: its legs from hook to hook, the actions at each hook,
// and its ends.

import { groupBy } from '../collections.ts'
import type { Trace } from '../trace.ts'
import { acceptsByPolicy, type Hook, type TraceStep } from './step.ts'

/** A place on a packet's path through a node: one of the five hooks, or a step between them. */
export type PathPlace = Hook | 'in' | 'routing' | 'process' | 'out'

export const isByIpvs = ({ steps }: Trace): boolean => steps.some(({ table }) => table === 'ipvs')

/** From where to where the packet went; of several paths, all. */
export function legsOf(trace: Trace): [PathPlace, PathPlace][] {
  const { hooks, outcomes } = trace
  const has = (hook: Hook) => hooks.includes(hook)
  const isSent = hooks[0] === 'OUTPUT'
  const legs: [boolean, PathPlace, PathPlace][] = [
    [!isSent, 'in', 'PREROUTING'],
    [has('PREROUTING') && (has('INPUT') || has('FORWARD')), 'PREROUTING', 'routing'],
    [has('INPUT'), 'routing', 'INPUT'],
    [has('INPUT') && (isByIpvs(trace) || outcomes.length > 0), 'INPUT', 'process'],
    [has('FORWARD'), 'routing', 'FORWARD'],
    [has('FORWARD') && has('POSTROUTING'), 'FORWARD', 'POSTROUTING'],
    [has('OUTPUT'), 'process', 'OUTPUT'],
    [has('OUTPUT') && has('POSTROUTING'), 'OUTPUT', 'POSTROUTING'],
    [
      outcomes.length > 0 && has('POSTROUTING') && !(isSent && has('PREROUTING')),
      'POSTROUTING',
      'out',
    ],
  ]
  return legs.flatMap(([isTaken, from, to]) => (isTaken ? [[from, to]] : []))
}

/**
 * What one chain or virtual server did to the packet, or several of them alike to parts of the
 * connections.
 */
export interface TraceAction {
  table: string
  /**
   * The chains from the hook's to the one that decided; of several, those that lead to all of them.
   */
  chains: string[]
  /** `DNAT to 10.244.1.6:80`, `REJECT: RULE`, `mark becomes 0x4000`. */
  text: string
  probability: number
  steps: TraceStep[]
}

/** Verdicts that are no action without a change of the packet. */
const QUIET = new Set(['JUMP', 'GOTO', 'CONTINUE', 'RETURN', 'NO MATCH'])
const CLEARED = /^(?:connection )?mark becomes 0x0$/
const isStop = (verdict: string): boolean => verdict === 'REJECT' || verdict === 'DROP'

/** What was done to a packet at a hook. */
export function actionsAt({ steps }: Trace, hook: Hook): TraceAction[] {
  const acting = steps
    .filter((step) => step.hook === hook && step.matched && !acceptsByPolicy(step))
    // Masquerading clears the mark that requested it; the next action shows that.
    .filter(
      ({ verdict, change }) =>
        isStop(verdict) || (change ? !CLEARED.test(change) : !QUIET.has(verdict)),
    )
    .map((step) => ({ step, text: describeAction(step), path: step.path ?? [step.chain] }))
  const groups = groupBy(
    acting,
    ({ step, text, path }) => `${step.table} ${path[0]} ${text.split(' ')[0]}`,
  )
  return [...groups.values()].flatMap((group) => {
    const chains = commonPath(group.map(({ path }) => path))
    return [...groupBy(group, ({ text }) => text)].map(([text, alike]): TraceAction => {
      const steps = alike.map(({ step }) => step)
      const probability = steps.reduce((sum, step) => sum + step.probability, 0)
      return {
        table: steps[0]?.table ?? '',
        chains,
        text,
        probability: Math.min(1, probability),
        steps,
      }
    })
  })
}

function describeAction({ verdict, change, rule }: TraceStep): string {
  if (isStop(verdict)) return `${verdict}: ${rule}`
  return [...(QUIET.has(verdict) ? [] : [verdict]), change ?? []].flat().join(' ')
}

function commonPath(paths: readonly (readonly string[])[]): string[] {
  const [first = []] = paths
  const length = first.findIndex((chain, index) => paths.some((path) => path[index] !== chain))
  return length === -1 ? [...first] : first.slice(0, length)
}

export interface TraceOutcome {
  to?: string
  verdict: 'dnat' | 'accept' | 'reject' | 'drop'
  probability: number
  masquerade: boolean
  /** The table and chain, or the virtual server, that stopped it. */
  by?: string
}

/** Where the packet ends: each destination, and what stops it, with its share. */
export function endsOf({ outcomes, lost, verdict }: Trace): TraceOutcome[] {
  const sameChain = groupBy(lost, ({ verdict, table, chain }) => `${verdict} ${table} ${chain}`)
  const stopped = [...sameChain.values()].map((alike): TraceOutcome => {
    const [{ verdict, table, chain }] = alike as [(typeof alike)[number]]
    const probability = alike.reduce((sum, one) => sum + one.probability, 0)
    return { verdict, probability, masquerade: false, by: `${table} ${chain}` }
  })
  return [
    ...outcomes.map(
      (outcome): TraceOutcome => ({ ...outcome, verdict: verdict === 'accept' ? verdict : 'dnat' }),
    ),
    ...stopped,
  ]
}

/**
 * What a verdict means for the sender of the packet, as a sentence; empty for a packet that is
 * translated.
 */
export function consequenceOf({ verdict }: Trace): string {
  if (verdict === 'dnat') return ''
  if (verdict === 'accept') return UNTRANSLATED
  return `It is ${verdict === 'reject' ? 'rejected' : 'dropped'}: ${SENDER_SEES[verdict]}.`
}

export const SENDER_SEES = {
  reject: 'the sender gets "connection refused"',
  drop: 'the sender gets no answer and times out',
}
export const UNTRANSLATED = 'No rule translates it: it goes to its original destination.'
