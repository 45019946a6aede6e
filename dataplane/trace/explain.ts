import type { Trace } from '../trace.ts'
import { acceptsByPolicy, type Step } from './step.ts'

/** Runs of rules that do not match are shown up to this many, then counted. */
const MISSES_SHOWN = 3

/**
 * A trace for reading: each rule the packet met, marked `✓` where it matched, with what it did and why, and the end. With
 * `all`, every rule and policy is shown, else long runs that do not match are counted and accepting policies left out.
 */
export function explainTrace(trace: Trace, options: { all?: boolean } = {}): string {
  const lines = [trace.packet]
  let place = ''
  let misses: Step[] = []
  const flush = () => {
    const named = options.all ? misses : misses.slice(0, MISSES_SHOWN)
    for (const step of named) lines.push(`    · ${step.rule}`, `        no match: ${step.reason}`)
    const hidden = misses.length - named.length
    if (hidden > 0) lines.push(`    · … ${hidden === 1 ? '1 more does' : `${hidden} more do`} not match`)
    misses = []
  }
  const shown = options.all ? trace.steps : trace.steps.filter((step) => !acceptsByPolicy(step))
  for (const step of shown) {
    const here = `${step.hook} ${step.table}  (${step.packet})`
    if (here !== place) {
      flush()
      lines.push('', here)
      place = here
    }
    if (!step.matched) {
      misses.push(step)
      continue
    }
    flush()
    const chance = step.probability < 1 ? ` [${percent(step.probability)}]` : ''
    lines.push(`    ✓ ${step.rule}`, `        ${step.verdict}${chance}${step.reason === '' ? '' : `: ${step.reason}`}`)
  }
  flush()
  return `${[...lines, '', ...ending(trace)].join('\n')}\n`
}

function ending(trace: Trace): string[] {
  const lines: string[] = []
  for (const { to, probability, masquerade } of trace.outcomes) {
    lines.push(`→ ${to}  ${percent(probability)}${masquerade ? ', source masqueraded' : ', source kept'}`)
  }
  for (const { verdict, probability, table, chain, rule } of trace.lost) {
    lines.push(`✗ ${verdict}  ${percent(probability)} by ${table} ${chain}: ${rule}`)
  }
  const sentence = {
    dnat: 'The packet is translated to one of the above.',
    accept: 'The packet goes where it was sent, nothing translates it.',
    reject: 'The packet is rejected: the sender gets an answer, "connection refused".',
    drop: 'The packet is dropped: the sender gets no answer, a time-out.',
  }[trace.verdict]
  return [...lines, sentence]
}

function percent(probability: number): string {
  return `${Number((probability * 100).toFixed(2))} %`
}
