import { type EditPlace, type FileEdit, isLearnersRule, lineEdits } from './mutation.ts'

/** A rule in the text of iptables-save. */
interface RuleLine {
  at: number
  table: string
  chain: string
  text: string
  target: string
}

const FOREIGN = /^(?!KUBE-)/
const KUBELET = /^KUBE-(?:KUBELET-CANARY|IPTABLES-HINT)$/

const replaced = (pattern: RegExp, replacement: string) => (rule: string) => rule.replace(pattern, replacement)
const incremented = (number: RegExp) => (rule: string) => rule.replace(number, (found) => String(Number(found) + 1))

/** The alterations of a rule by their names. */
const ALTERATIONS: Readonly<Record<string, (rule: string) => string>> = {
  'alter target': replaced(
    /-j (?:KUBE-MARK-MASQ|MASQUERADE|ACCEPT|DNAT|MARK|KUBE-SEP-\w+|KUBE-SVC-\w+)\b.*$/,
    '-j RETURN',
  ),
  'alter verdict': replaced(/-j (?:DROP|REJECT)\b.*$/, '-j ACCEPT'),
  'lose target': replaced(/ -j (?:DROP|REJECT)\b.*$/, ''),
  'alter port': incremented(/(?<=--dport )\d+/),
  'alter destination': replaced(/-d (\d+\.\d+)\.\d+\.\d+\/32/, '-d $1.99.99/32'),
  'alter backend': incremented(/(?<=--to-destination \S+:)\d+/),
  'alter source': replaced(/! -s \S+/, '! -s 192.0.2.0/24'),
  'lose negation': replaced(/! -s/, '-s'),
  'alter probability': replaced(/--probability [\d.]+/, '--probability 0.90000000000'),
  'alter mark': replaced(/--set-xmark 0x4000\/0x4000/, '--set-xmark 0x2000/0x2000'),
  'alter mark match': replaced(/--mark 0x4000\/0x4000/, '--mark 0x2000/0x2000'),
  'alter mark clearing': replaced(/--xor-mark 0x4000|--set-xmark 0x4000\/0x0/, '--set-xmark 0x0/0x0'),
  'alter set': replaced(/--match-set KUBE-[\w-]+/, '--match-set KUBE-OTHER'),
  'alter set direction': replaced(/--match-set (\S+) dst/, '--match-set $1 src'),
  'alter protocol': replaced(/-p tcp/, '-p udp'),
  'alter address type': replaced(/--dst-type LOCAL/, '--dst-type BROADCAST'),
  'alter state': replaced(/--ctstate \S+/, '--ctstate UNTRACKED'),
  'lose --random-fully': replaced(/ --random-fully/, ''),
  'add a condition': replaced(/^((?:\[\d+:\d+\] )?-A \S+) /, '$1 -i eth9 '),
}

/** Yields every single change of a rule, chain or policy of kube-proxy or the learner, in an iptables-save text. */
export function* iptablesEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  const rules = readRules(lines)
  const own = rules.filter(
    ({ chain, target, text }) => isOwn(chain) || (FOREIGN.test(chain) && (isOwn(target) || isLearnersRule(text))),
  )
  for (const rule of own) yield* ruleEdits(lines, rules, rule)
  yield* chainEdits(lines, rules)
  yield* builtInEdits(lines, rules)
}

const isOwn = (chain: string) => chain.startsWith('KUBE-') && !KUBELET.test(chain)

function readRules(lines: readonly string[]): RuleLine[] {
  return linesOfTables(lines).flatMap(({ at, table, line }) => {
    const chain = /^(?:\[\d+:\d+\] )?-A (\S+)/.exec(line)?.[1]
    if (chain === undefined) return []
    return [{ at, table, chain, text: line, target: /-[jg] (\S+)/.exec(line)?.[1] ?? '' }]
  })
}

function* ruleEdits(lines: readonly string[], rules: readonly RuleLine[], rule: RuleLine): Generator<FileEdit> {
  const { at, table, chain, text, target } = rule
  const words = FOREIGN.test(chain) && isOwn(target) ? [target] : []
  const place = { place: `${table} ${chain}`, words, detail: specOf(text) }
  const altered = Object.entries(ALTERATIONS).map(([operator, alter]) => [operator, [alter(text)]])
  yield* lineEdits(lines, at, place, {
    'drop rule': [],
    'duplicate rule': [text, text],
    ...Object.fromEntries(altered),
  })
  const next = rules.find((other) => other.at === at + 1 && other.chain === chain && other.table === table)
  if (next && specOf(next.text) !== specOf(text))
    yield { ...place, operator: 'reorder rules', edit: () => lines.toSpliced(at, 2, next.text, text).join('\n') }
}

const specOf = (text: string) => text.replace(/^\[\d+:\d+\] /, '')

function* chainEdits(lines: readonly string[], rules: readonly RuleLine[]): Generator<FileEdit> {
  const without = (gone: ReadonlySet<number>) => () => lines.filter((_, at) => !gone.has(at)).join('\n')
  for (const { at, table, line } of linesOfTables(lines)) {
    const chain = /^:(KUBE-\S+) /.exec(line)?.[1]
    if (chain === undefined || !isOwn(chain)) continue
    const place = { place: `${table} ${chain}`, detail: `:${chain}` }
    const here = rules.filter((rule) => rule.table === table)
    const body = here.filter((rule) => rule.chain === chain).map((rule) => rule.at)
    const jumps = here.filter(({ target }) => target === chain).map((rule) => rule.at)
    yield { ...place, operator: 'drop chain', edit: without(new Set([at, ...body, ...jumps])) }
    const [first] = body
    if (first === undefined) continue
    yield { ...place, operator: 'empty chain', edit: without(new Set(body)) }
    yield insertion('insert rule', place, lines, first, `-A ${chain} -j RETURN`)
  }
  const stale = 'nat KUBE-SVC-AAAAAAAAAAAAAAAA'
  const line = ':KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]'
  if (lines.includes('*nat'))
    yield insertion('add stale chain', { place: stale, detail: line }, lines, lines.indexOf('*nat') + 1, line)
}

/** The lines of an iptables-save text, each with its table. */
function linesOfTables(lines: readonly string[]): { at: number; table: string; line: string }[] {
  let table = ''
  return lines.map((line, at) => {
    if (line.startsWith('*')) table = line.slice(1).trim()
    return { at, table, line }
  })
}

const insertion = (
  operator: string,
  place: EditPlace,
  lines: readonly string[],
  at: number,
  line: string,
): FileEdit => ({ ...place, operator, edit: () => lines.toSpliced(at, 0, line).join('\n') })

/** Rules outside kube-proxy's tables that drop some or all Service packets. */
const DROPPING_RULES = [
  '-A PREROUTING -p tcp -m statistic --mode random --probability 0.10000000009 -j DROP',
  '-A PREROUTING -d 10.96.0.0/16 -j DROP',
]

/** Policies of the built-in chains, and foreign rules in front of kube-proxy's. */
function* builtInEdits(lines: readonly string[], rules: readonly RuleLine[]): Generator<FileEdit> {
  for (const { at, table, line } of linesOfTables(lines)) {
    const chain = /^:(INPUT|FORWARD|OUTPUT) ACCEPT/.exec(line)?.[1]
    if (chain === undefined || table !== 'filter') continue
    const place = { place: `filter ${chain}`, detail: `${chain} DROP` }
    yield* lineEdits(lines, at, place, { 'alter policy': [line.replace('ACCEPT', 'DROP')] })
  }
  const commit = lines.indexOf('COMMIT', lines.indexOf('*mangle'))
  for (const rule of lines.includes('*mangle') ? DROPPING_RULES : [])
    yield insertion('take packets', { place: 'mangle PREROUTING', detail: rule }, lines, commit, rule)
  for (const chain of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) {
    const jump = rules.find((rule) => rule.table === 'nat' && rule.chain === chain && isOwn(rule.target))
    const rule = `-A ${chain} -p tcp -j ACCEPT`
    const place = { place: `nat ${chain}`, detail: rule }
    if (jump) yield insertion('insert rule', place, lines, jump.at, rule)
  }
}
