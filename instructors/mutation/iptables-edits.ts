import { type FileEdit, isLearnersRule } from './mutation.ts'

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

/** One alteration of a rule: its name, and the changed rule. */
const ALTERATIONS: readonly [
  operator: string,
  pattern: RegExp,
  replacement: string | ((...found: string[]) => string),
][] = [
  ['alter target', /-j (?:KUBE-MARK-MASQ|MASQUERADE|ACCEPT|DNAT|MARK|KUBE-SEP-\w+|KUBE-SVC-\w+)\b.*$/, '-j RETURN'],
  ['alter verdict', /-j (?:DROP|REJECT)\b.*$/, '-j ACCEPT'],
  ['lose target', / -j (?:DROP|REJECT)\b.*$/, ''],
  ['alter port', /--dport (\d+)/, (_all, port = '') => `--dport ${Number(port) + 1}`],
  ['alter destination', /-d (\d+\.\d+)\.\d+\.\d+\/32/, '-d $1.99.99/32'],
  [
    'alter backend',
    /--to-destination (\S+):(\d+)/,
    (_all, ip = '', port = '') => `--to-destination ${ip}:${Number(port) + 1}`,
  ],
  ['alter source', /! -s \S+/, '! -s 192.0.2.0/24'],
  ['lose negation', /! -s/, '-s'],
  ['alter probability', /--probability [\d.]+/, '--probability 0.90000000000'],
  ['alter mark', /--set-xmark 0x4000\/0x4000/, '--set-xmark 0x2000/0x2000'],
  ['alter mark match', /--mark 0x4000\/0x4000/, '--mark 0x2000/0x2000'],
  ['alter mark clearing', /--xor-mark 0x4000|--set-xmark 0x4000\/0x0/, '--set-xmark 0x0/0x0'],
  ['alter set', /--match-set KUBE-[\w-]+/, '--match-set KUBE-OTHER'],
  ['alter set direction', /--match-set (\S+) dst/, '--match-set $1 src'],
  ['alter protocol', /-p tcp/, '-p udp'],
  ['alter address type', /--dst-type LOCAL/, '--dst-type BROADCAST'],
  ['alter state', /--ctstate \S+/, '--ctstate UNTRACKED'],
  ['lose --random-fully', / --random-fully/, ''],
  ['add a condition', /^((?:\[\d+:\d+\] )?-A \S+) /, '$1 -i eth9 '],
]

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
  let table = ''
  return lines.flatMap((text, at) => {
    if (text.startsWith('*')) table = text.slice(1).trim()
    const chain = /^(?:\[\d+:\d+\] )?-A (\S+)/.exec(text)?.[1]
    if (chain === undefined) return []
    return [{ at, table, chain, text, target: /-[jg] (\S+)/.exec(text)?.[1] ?? '' }]
  })
}

function* ruleEdits(lines: readonly string[], rules: readonly RuleLine[], rule: RuleLine): Generator<FileEdit> {
  const { at, table, chain, text, target } = rule
  const words = FOREIGN.test(chain) && isOwn(target) ? [chain, target] : [chain]
  const about = { place: `${table} ${chain}`, words, detail: specOf(text) }
  const put = (...instead: string[]) => lines.toSpliced(at, 1, ...instead).join('\n')
  yield { ...about, operator: 'drop rule', edit: () => put() }
  yield { ...about, operator: 'duplicate rule', edit: () => put(text, text) }
  const next = rules.find((other) => other.at === at + 1 && other.chain === chain && other.table === table)
  if (next && specOf(next.text) !== specOf(text)) {
    const swapped = lines
      .with(at, next.text)
      .with(at + 1, text)
      .join('\n')
    yield { ...about, operator: 'reorder rules', edit: () => swapped }
  }
  for (const [operator, pattern, replacement] of ALTERATIONS) {
    const altered =
      typeof replacement === 'string' ? text.replace(pattern, replacement) : text.replace(pattern, replacement)
    if (altered !== text) yield { ...about, operator, edit: () => put(altered) }
  }
}

const specOf = (text: string) => text.replace(/^\[\d+:\d+\] /, '')

function* chainEdits(lines: readonly string[], rules: readonly RuleLine[]): Generator<FileEdit> {
  let table = ''
  for (const line of lines) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    const chain = /^:(KUBE-\S+) /.exec(line)?.[1]
    if (chain === undefined || !isOwn(chain)) continue
    const here = table
    const gone = new Set(
      rules
        .filter((rule) => rule.table === here && (rule.chain === chain || rule.target === chain))
        .map(({ at }) => at),
    )
    const declared = lines.indexOf(line, lines.indexOf(`*${here}`))
    const about = { place: `${here} ${chain}`, words: [chain], detail: `:${chain}` }
    yield {
      ...about,
      operator: 'drop chain',
      edit: () => lines.filter((_, at) => at !== declared && !gone.has(at)).join('\n'),
    }
    const body = rules.filter((rule) => rule.table === here && rule.chain === chain)
    const first = body[0]
    if (first === undefined) continue
    const emptied = new Set(body.map(({ at }) => at))
    yield { ...about, operator: 'empty chain', edit: () => lines.filter((_, at) => !emptied.has(at)).join('\n') }
    yield {
      ...about,
      operator: 'insert rule',
      edit: () => lines.toSpliced(first.at, 0, `-A ${chain} -j RETURN`).join('\n'),
    }
  }
  const nat = lines.indexOf('*nat')
  const stale = ':KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]'
  if (nat !== -1)
    yield {
      operator: 'add stale chain',
      place: 'nat KUBE-SVC-AAAAAAAAAAAAAAAA',
      detail: stale,
      words: ['KUBE-SVC-AAAAAAAAAAAAAAAA'],
      edit: () => lines.toSpliced(nat + 1, 0, stale).join('\n'),
    }
}

/** Rules outside kube-proxy's tables that drop some or all Service packets. */
const TAKING_RULES = [
  '-A PREROUTING -p tcp -m statistic --mode random --probability 0.10000000009 -j DROP',
  '-A PREROUTING -d 10.96.0.0/16 -j DROP',
]

/** Policies of the built-in chains, and foreign rules in front of kube-proxy's. */
function* builtInEdits(lines: readonly string[], rules: readonly RuleLine[]): Generator<FileEdit> {
  let table = ''
  for (const [at, line] of lines.entries()) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    const chain = /^:(INPUT|FORWARD|OUTPUT) ACCEPT/.exec(line)?.[1]
    if (chain === undefined || table !== 'filter') continue
    yield {
      operator: 'alter policy',
      place: `filter ${chain}`,
      detail: `${chain} DROP`,
      words: [chain],
      edit: () => lines.with(at, line.replace('ACCEPT', 'DROP')).join('\n'),
    }
  }
  const mangle = lines.indexOf('COMMIT', lines.indexOf('*mangle'))
  for (const rule of lines.includes('*mangle') ? TAKING_RULES : [])
    yield {
      operator: 'take packets',
      place: 'mangle PREROUTING',
      words: ['PREROUTING'],
      detail: rule,
      edit: () => lines.toSpliced(mangle, 0, rule).join('\n'),
    }
  for (const chain of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) {
    const jump = rules.find((rule) => rule.table === 'nat' && rule.chain === chain && isOwn(rule.target))
    if (!jump) continue
    const about = { place: `nat ${chain}`, words: [chain] }
    const rule = `-A ${chain} -p tcp -j ACCEPT`
    yield { ...about, operator: 'insert rule', detail: rule, edit: () => lines.toSpliced(jump.at, 0, rule).join('\n') }
  }
}
