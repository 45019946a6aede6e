import { groupBy } from '../collections.ts'
import type { Trace } from '../trace.ts'
import {
  actionsAt,
  consequenceOf,
  endsOf,
  isByIpvs,
  legsOf,
  type PathPlace,
  type TraceAction,
} from './path.ts'
import type { Hook } from './step.ts'

export interface DrawOptions {
  /** Columns of the terminal; at least 40 are used. */
  width: number
  /** Lines of ASCII text without the drawing: for pipes, screen readers and simple terminals. */
  plain?: boolean
  /** Where a packet to a Service stopped (stoppingPlace), as a predicate after "It". */
  stop?: string | undefined
}

const ROWS = 4
/** The minimum width for the drawing; below it, only the list is printed. */
const DRAWN = 66
const NARROWEST = 40

/**
 * Draws the path of a packet in lines of at most `width` columns: Netfilter's hooks with the passed
 * ones highlighted, then for each of these the actions and their chains, then the end. A typical
 * trace fits into 24 lines.
 */
export function drawTrace(
  trace: Trace,
  { width: requestedWidth, plain = false, stop }: DrawOptions,
): string[] {
  const width = Math.max(requestedWidth, NARROWEST)
  const drawing = plain || width < DRAWN ? [] : drawHooks(trace)
  const lines = [trace.packet, ...drawing, '']
  for (const hook of trace.hooks) lines.push(...describeHook(trace, hook, width))
  const end = [...describeEnd(trace, ROWS), ...(stop === undefined ? [] : [`It ${stop}.`])]
  lines.push('', ...end.flatMap((line) => wrap(line, width, '')))
  return plain ? lines.map(toAscii) : lines
}

/**
 * Hooks that the packet passed in brackets with heavy lines, `✗` behind one that stopped it, the
 * others with thin lines.
 */
function drawHooks(trace: Trace): string[] {
  const stopping = new Set(trace.lost.map(({ hook }) => hook))
  const legs = legsOf(trace)
  const isTaken = (from: PathPlace, to: PathPlace) =>
    legs.some(([one, other]) => one === from && other === to)
  const has = (hook: Hook) => trace.hooks.includes(hook)
  const box = (hook: Hook, columns: number) => {
    const name = has(hook) ? `[${hook}]${stopping.has(hook) ? '✗' : ''}` : ` ${hook} `
    return name.padStart(name.length + Math.floor((columns - name.length) / 2)).padEnd(columns)
  }
  const edge = (from: PathPlace, to: PathPlace, columns: number) =>
    `${(isTaken(from, to) ? '━' : '─').repeat(columns - 1)}${isTaken(from, to) ? '▶' : '>'}`
  const bar = (hook: Hook) => (has(hook) ? '┃' : '│')
  const isSent = trace.hooks[0] === 'OUTPUT'
  const name = isByIpvs(trace) && !isSent ? 'IPVS' : 'process'
  const local = isSent || isTaken('INPUT', 'process') ? `[${name}]` : ` ${name} `
  return [
    `        ${box('INPUT', 12)}${edge('INPUT', 'process', 6)} ${local.padStart(10 - Math.ceil((10 - local.length) / 2)).padEnd(10)} ${edge('process', 'OUTPUT', 6)}${box('OUTPUT', 13)}`,
    `              ${bar('INPUT')}${' '.repeat(35)}${bar('OUTPUT')}`,
    `in ${edge('in', 'PREROUTING', 4)}${box('PREROUTING', 15)}${edge('routing', 'FORWARD', 4)}${box('FORWARD', 12)}${edge('FORWARD', 'POSTROUTING', 4)}${box('POSTROUTING', 16)}${edge('POSTROUTING', 'out', 4)} out`,
  ].map((line) => line.trimEnd())
}

/**
 * Lines for a hook, the chains with an effect, and their actions; parts of the connections with the
 * same path are joined.
 */
function describeHook(trace: Trace, hook: Hook, width: number): string[] {
  const lines: string[] = []
  for (const { table, chains, texts } of joinActions(actionsAt(trace, hook))) {
    const title = `${table}: ${chains.join(' → ')}`
    if (texts.length === 1 && !texts[0]?.includes(': ')) {
      lines.push(...wrap(`${title}  ${texts[0]}`, width, '  '))
      continue
    }
    lines.push(...wrap(title, width, '  '))
    const shown = texts.length > ROWS ? texts.slice(0, ROWS - 1) : texts
    for (const text of shown) lines.push(...wrap(text, width, '    '))
    if (texts.length > shown.length) lines.push(`    … and ${texts.length - shown.length} more`)
  }
  return [lines.length > 0 ? hook : `${hook}: no rule has an effect`, ...lines]
}

function joinActions(
  actions: readonly TraceAction[],
): (Pick<TraceAction, 'table' | 'chains'> & { texts: string[] })[] {
  const joined = groupBy(
    actions,
    ({ table, chains, text }) => `${table} ${chains.join(' ')} ${text.split(' ')[0]}`,
  )
  return [...joined.values()].map((alike) => {
    const [{ table, chains }] = alike as [TraceAction]
    const texts = alike.map(({ text, probability }) => {
      return `${text}${probability < 0.999_999 ? `  ${percent(probability)}` : ''}`
    })
    return { table, chains, texts }
  })
}

function describeEnd(trace: Trace, rows = Number.POSITIVE_INFINITY): string[] {
  const ends = endsOf(trace).map(({ to, verdict, probability, masquerade, by }) =>
    to === undefined
      ? `✗ ${verdict}  ${percent(probability)}, by ${by}`
      : `→ ${to}  ${percent(probability)}, source ${masquerade ? 'masqueraded' : 'kept'}`,
  )
  const lines =
    ends.length > rows ? [...ends.slice(0, rows - 1), `… and ${ends.length - rows + 1} more`] : ends
  const sentence = consequenceOf(trace)
  return sentence === '' ? lines : [...lines, sentence]
}

const percent = (probability: number): string => `${Number((probability * 100).toFixed(2))} %`

/**
 * Wraps a line at spaces, and a word only if it is too long; continuation lines are indented by
 * four more columns.
 */
function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  const tokens = text
    .split(' ')
    .flatMap((word) => word.match(new RegExp(`.{1,${width - indent.length - 4}}`, 'gu')) ?? [''])
  for (const [index, word] of tokens.entries()) {
    const isFirst = index === 0
    if (!isFirst && line.length + 1 + word.length > width) {
      lines.push(line)
      line = `${indent}    ${word}`
    } else line += isFirst ? word : ` ${word}`
  }
  return [...lines, line].map((one) => one.trimEnd())
}

const ASCII: Record<string, string> = { '→': '->', '✗': 'x', '…': '...' }
const toAscii = (line: string): string => line.replace(/[→✗…]/g, (sign) => ASCII[sign] ?? '')

/**
 * Explains a trace: every evaluated rule and policy, with `✓` if it matched, its effect and the
 * reason, and the end.
 */
export function explainTrace(trace: Trace): string[] {
  const lines = [trace.packet]
  let place = ''
  for (const { hook, table, packet, matched, rule, verdict, reason, probability } of trace.steps) {
    const here = `${hook} ${table}  (${packet})`
    if (here !== place) lines.push('', here)
    place = here
    if (matched) {
      const chance = probability < 1 ? ` [${percent(probability)}]` : ''
      lines.push(
        `    ✓ ${rule}`,
        `        ${verdict}${chance}${reason === '' ? '' : `: ${reason}`}`,
      )
    } else lines.push(`    · ${rule}`, `        no match: ${reason}`)
  }
  return [...lines, '', ...describeEnd(trace)]
}
