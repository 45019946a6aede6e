import type { Trace } from '../trace.ts'
import { acceptsByPolicy, type Hook, type Step } from './step.ts'

export interface DrawOptions {
  /** Columns of the terminal; at least 40 are used. */
  width: number
  /** Lines of ASCII text without the drawing: for pipes, screen readers and simple terminals. */
  plain?: boolean
  /** Where a packet to a Service stopped (stoppingPlace), as a predicate after "It". */
  stop?: string | undefined
}

/** Maximum number of rows for the actions at one hook, and for the ends of the path. */
const ROWS = 4
/** The minimum width for the drawing; below it, only the list is printed. */
const DRAWN = 66
const NARROWEST = 40

/**
 * Draws the path of a packet in lines of at most `width` columns: Netfilter's hooks with the passed ones highlighted, then for each
 * of these the actions and their chains, then the end. A typical trace fits into 24 lines.
 */
export function drawTrace(trace: Trace, { width: given, plain = false, stop }: DrawOptions): string[] {
  const width = Math.max(given, NARROWEST)
  const drawing = plain || width < DRAWN ? [] : drawHooks(trace)
  const lines = [trace.packet, ...drawing, '']
  for (const hook of trace.hooks) lines.push(...describeHook(trace, hook, width))
  const end = [...describeEnd(trace, ROWS), ...(stop === undefined ? [] : [`It ${stop}.`])]
  lines.push('', ...end.flatMap((line) => wrap(line, width, '')))
  return plain ? lines.map(toAscii) : lines
}

/** Hooks that the packet passed in brackets with heavy lines, `✗` behind one that stopped it, the others with thin lines. */
function drawHooks({ hooks, outcomes, lost, steps }: Trace): string[] {
  const stopping = new Set(
    lost.flatMap(({ table, chain, rule }) =>
      steps
        .filter((step) => step.matched && step.table === table && step.chain === chain && step.rule === rule)
        .map(({ hook }) => hook),
    ),
  )
  const has = (hook: Hook) => hooks.includes(hook)
  const box = (hook: Hook, columns: number) => {
    const name = has(hook) ? `[${hook}]${stopping.has(hook) ? '✗' : ''}` : ` ${hook} `
    return name.padStart(name.length + Math.floor((columns - name.length) / 2)).padEnd(columns)
  }
  const edge = (taken: boolean, columns: number) => `${(taken ? '━' : '─').repeat(columns - 1)}${taken ? '▶' : '>'}`
  const isSent = hooks[0] === 'OUTPUT'
  const byIpvs = steps.some(({ table }) => table === 'ipvs')
  const arrives = has('INPUT') && (byIpvs || outcomes.length > 0)
  const leaves = outcomes.length > 0 && has('POSTROUTING') && !(isSent && has('PREROUTING'))
  const bar = (taken: boolean) => (taken ? '┃' : '│')
  const name = byIpvs && !isSent ? 'IPVS' : 'process'
  const local = isSent || arrives ? `[${name}]` : ` ${name} `
  const forwarded = has('FORWARD')
  return [
    `        ${box('INPUT', 12)}${edge(arrives, 6)} ${local.padStart(10 - Math.ceil((10 - local.length) / 2)).padEnd(10)} ${edge(has('OUTPUT'), 6)}${box('OUTPUT', 13)}`,
    `              ${bar(has('INPUT'))}${' '.repeat(35)}${bar(has('OUTPUT'))}`,
    `in ${edge(!isSent, 4)}${box('PREROUTING', 15)}${edge(forwarded, 4)}${box('FORWARD', 12)}${edge(forwarded && has('POSTROUTING'), 4)}${box('POSTROUTING', 16)}${edge(leaves, 4)} out`,
  ].map((line) => line.trimEnd())
}

/** The action of one chain on the packet, with its share of the connections. */
interface Action {
  table: string
  path: readonly string[]
  summary: string
  probability: number
}

const QUIET = new Set(['JUMP', 'GOTO', 'CONTINUE', 'RETURN', 'NO MATCH'])

function actionsAt({ steps }: Trace, hook: Hook): Action[] {
  return (
    steps
      .filter((step) => step.hook === hook && step.matched && !acceptsByPolicy(step))
      .filter(({ verdict, reason }) => (QUIET.has(verdict) ? reason.includes('mark becomes') : true))
      // Masquerading clears the mark that requested it; the next line shows that.
      .filter(({ reason }) => !/mark becomes 0x0$/.test(reason))
      .map((step) => ({
        table: step.table,
        path: step.path ?? [step.chain],
        summary: describeAction(step),
        probability: step.probability,
      }))
  )
}

/** `DNAT to 10.244.1.6:80`, `REJECT icmp-port-unreachable`, `mark becomes 0x4000`. */
function describeAction({ verdict, reason, rule }: Step): string {
  const action = reason.split('; ').at(-1) ?? ''
  const effect = /(?:^|[,;] )((?:connection )?mark becomes \S+|(?:to|source becomes) \S+)$/.exec(
    reason.split(/; scheduler /)[0] ?? '',
  )?.[1]
  if (QUIET.has(verdict)) return effect ?? action
  if (verdict === 'REJECT' || verdict === 'DROP') return `${verdict}: ${rule}`
  return `${verdict}${effect === undefined ? '' : ` ${effect}`}`
}

/** Lines for a hook, the chains with an effect, and their actions; parts of the connections with the same path are joined. */
function describeHook(trace: Trace, hook: Hook, width: number): string[] {
  const lines: string[] = []
  for (const group of groupActions(actionsAt(trace, hook))) {
    const [first] = group
    if (!first) continue
    const path = commonPath(group.map((action) => action.path))
    const title = `${first.table}: ${path.join(' → ')}`
    const summary = [...new Set(group.map((action) => action.summary))].map((text) => {
      const probability = group
        .filter((action) => action.summary === text)
        .reduce((sum, action) => sum + action.probability, 0)
      return `${text}${probability < 0.999_999 ? `  ${percent(probability)}` : ''}`
    })
    if (summary.length === 1 && !summary[0]?.includes(': ')) {
      lines.push(...wrap(`${title}  ${summary[0]}`, width, '  '))
      continue
    }
    lines.push(...wrap(title, width, '  '))
    const shown = summary.length > ROWS ? summary.slice(0, ROWS - 1) : summary
    for (const text of shown) lines.push(...wrap(text, width, '    '))
    if (summary.length > shown.length) lines.push(`    … and ${summary.length - shown.length} more`)
  }
  return [lines.length > 0 ? hook : `${hook}: no rule has an effect`, ...lines]
}

/** Groups actions of the same table and kind. */
function groupActions(actions: readonly Action[]): Action[][] {
  const groups = new Map<string, Action[]>()
  for (const action of actions) {
    const key = `${action.table} ${action.path[0]} ${action.summary.split(' ')[0]}`
    groups.set(key, [...(groups.get(key) ?? []), action])
  }
  return [...groups.values()]
}

function commonPath(paths: readonly (readonly string[])[]): readonly string[] {
  const [first = []] = paths
  const length = first.findIndex((chain, index) => paths.some((path) => path[index] !== chain))
  return length === -1 ? first : first.slice(0, length)
}

/** Describes the ends of the path, one per line with its share, and a sentence that explains the verdict. */
function describeEnd({ outcomes, lost, verdict }: Trace, rows = Number.POSITIVE_INFINITY): string[] {
  const ends = [
    ...outcomes.map(({ to, probability, masquerade }) => {
      return `→ ${to}  ${percent(probability)}, source ${masquerade ? 'masqueraded' : 'kept'}`
    }),
    ...lost.map((one) => `✗ ${one.verdict}  ${percent(one.probability)}, by ${one.table} ${one.chain}`),
  ]
  const lines = ends.length > rows ? [...ends.slice(0, rows - 1), `… and ${ends.length - rows + 1} more`] : ends
  const sentence = {
    dnat: '',
    accept: 'No rule translates it: it goes to its original destination.',
    reject: 'It is rejected: the sender gets "connection refused".',
    drop: 'It is dropped: the sender gets no answer and times out.',
  }[verdict]
  return sentence === '' ? lines : [...lines, sentence]
}

const percent = (probability: number): string => `${Number((probability * 100).toFixed(2))} %`

/** Wraps a line at spaces, and a word only if it is too long; continuation lines are indented by four more columns. */
function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  const words = text
    .split(' ')
    .flatMap((word) => word.match(new RegExp(`.{1,${width - indent.length - 4}}`, 'gu')) ?? [''])
  for (const [index, word] of words.entries()) {
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

/** Explains a trace: every evaluated rule and policy, with `✓` if it matched, its effect and the reason, and the end. */
export function explainTrace(trace: Trace): string[] {
  const lines = [trace.packet]
  let place = ''
  for (const { hook, table, packet, matched, rule, verdict, reason, probability } of trace.steps) {
    const here = `${hook} ${table}  (${packet})`
    if (here !== place) lines.push('', here)
    place = here
    if (matched) {
      const chance = probability < 1 ? ` [${percent(probability)}]` : ''
      lines.push(`    ✓ ${rule}`, `        ${verdict}${chance}${reason === '' ? '' : `: ${reason}`}`)
    } else lines.push(`    · ${rule}`, `        no match: ${reason}`)
  }
  return [...lines, '', ...describeEnd(trace)]
}
