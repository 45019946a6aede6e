import { type FileEdit, isLearnersRule, lineEdits } from './mutation.ts'

/** The declaration of a chain, or a rule, in iptables-save text. */
interface RulesetLine {
  at: number
  table: string
  chain: string
  text: string
  isRule: boolean
  /** Of a rule. */
  target: string
}

const FOREIGN = /^(?!KUBE-)/
const KUBELET = /^KUBE-(?:KUBELET-CANARY|IPTABLES-HINT)$/

const replaced = (pattern: RegExp, replacement: string) => (rule: string) =>
  rule.replace(pattern, replacement)
const incremented = (number: RegExp) => (rule: string) =>
  rule.replace(number, (found) => String(Number(found) + 1))

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
  'alter mark clearing': replaced(
    /--xor-mark 0x4000|--set-xmark 0x4000\/0x0/,
    '--set-xmark 0x0/0x0',
  ),
  'alter set': replaced(/--match-set KUBE-[\w-]+/, '--match-set KUBE-OTHER'),
  'alter set direction': replaced(/--match-set (\S+) dst/, '--match-set $1 src'),
  'alter protocol': replaced(/-p tcp/, '-p udp'),
  'alter address type': replaced(/--dst-type LOCAL/, '--dst-type BROADCAST'),
  'alter state': replaced(/--ctstate \S+/, '--ctstate UNTRACKED'),
  'lose --random-fully': replaced(/ --random-fully/, ''),
  'add a condition': replaced(/^((?:\[\d+:\d+\] )?-A \S+) /, '$1 -i eth9 '),
}

/**
 * Yields every single change of a rule, chain or policy of kube-proxy or the learner, in an
 * iptables-save text.
 */
export function* iptablesEdits(text: string): Generator<FileEdit> {
  const lines = text.split('\n')
  const entries = readEntries(lines)
  const rules = entries.filter(({ isRule }) => isRule)
  for (const rule of rules) {
    const { chain, target, text } = rule
    if (isOwn(chain) || (FOREIGN.test(chain) && (isOwn(target) || isLearnersRule(text))))
      yield* ruleEdits(lines, rules, rule)
  }
  for (const entry of entries) if (!entry.isRule) yield* chainEdits(lines, rules, entry)
  yield* additions(lines, rules)
}

const isOwn = (chain: string) => chain.startsWith('KUBE-') && !KUBELET.test(chain)

function readEntries(lines: readonly string[]): RulesetLine[] {
  let table = ''
  return lines.flatMap((text, at) => {
    if (text.startsWith('*')) table = text.slice(1).trim()
    const [, colon, chain] = /^(?:(:)|(?:\[\d+:\d+\] )?-A )(\S+)/.exec(text) ?? []
    if (chain === undefined) return []
    return [
      {
        at,
        table,
        chain,
        text,
        isRule: colon === undefined,
        target: /-[jg] (\S+)/.exec(text)?.[1] ?? '',
      },
    ]
  })
}

function* ruleEdits(
  lines: readonly string[],
  rules: readonly RulesetLine[],
  rule: RulesetLine,
): Generator<FileEdit> {
  const { at, table, chain, text, target } = rule
  const mentions = FOREIGN.test(chain) && isOwn(target) ? [target] : []
  const place = { place: `${table} ${chain}`, mentions, detail: specOf(text) }
  const altered = Object.entries(ALTERATIONS).map(([operator, alter]) => [operator, [alter(text)]])
  yield* lineEdits(lines, at, place, {
    'drop rule': [],
    'duplicate rule': [text, text],
    ...Object.fromEntries(altered),
  })
  const next = rules.find(
    (other) => other.at === at + 1 && other.chain === chain && other.table === table,
  )
  if (next && specOf(next.text) !== specOf(text))
    yield {
      ...place,
      operator: 'reorder rules',
      edit: () => lines.toSpliced(at, 2, next.text, text).join('\n'),
    }
}

const specOf = (text: string) => text.replace(/^\[\d+:\d+\] /, '')

/** Edits of a whole chain, or of a policy. */
function* chainEdits(
  lines: readonly string[],
  rules: readonly RulesetLine[],
  entry: RulesetLine,
): Generator<FileEdit> {
  const { at, table, chain, text } = entry
  if (table === 'filter' && /^:(?:INPUT|FORWARD|OUTPUT) ACCEPT/.test(text))
    yield {
      place: `filter ${chain}`,
      detail: `${chain} DROP`,
      operator: 'alter policy',
      edit: () => lines.with(at, text.replace('ACCEPT', 'DROP')).join('\n'),
    }
  if (!isOwn(chain)) return
  const place = { place: `${table} ${chain}`, detail: `:${chain}` }
  const here = rules.filter((rule) => rule.table === table)
  const body = here.filter((rule) => rule.chain === chain)
  const jumps = here.filter(({ target }) => target === chain)
  const without = (gone: readonly RulesetLine[]) => () =>
    lines.filter((_, at) => !gone.some((one) => one.at === at)).join('\n')
  yield { ...place, operator: 'drop chain', edit: without([entry, ...body, ...jumps]) }
  const [first] = body
  if (!first) return
  yield { ...place, operator: 'empty chain', edit: without(body) }
  yield {
    ...place,
    operator: 'insert rule',
    edit: inserted(lines, first.at, `-A ${chain} -j RETURN`),
  }
}

const inserted = (lines: readonly string[], at: number, line: string) => () =>
  lines.toSpliced(at, 0, line).join('\n')

const STALE = 'KUBE-SVC-AAAAAAAAAAAAAAAA'

/** Rules outside kube-proxy's tables that drop some or all Service packets. */
const DROPPING_RULES = [
  '-A PREROUTING -p tcp -m statistic --mode random --probability 0.10000000009 -j DROP',
  '-A PREROUTING -d 10.96.0.0/16 -j DROP',
]

/** A chain of a Service that does not exist, and foreign rules in front of kube-proxy's. */
function* additions(lines: readonly string[], rules: readonly RulesetLine[]): Generator<FileEdit> {
  const stale = { place: `nat ${STALE}`, detail: `:${STALE} - [0:0]` }
  const nat = lines.indexOf('*nat')
  if (nat !== -1)
    yield { ...stale, operator: 'add stale chain', edit: inserted(lines, nat + 1, stale.detail) }
  const commit = lines.indexOf('COMMIT', lines.indexOf('*mangle'))
  for (const detail of lines.includes('*mangle') ? DROPPING_RULES : [])
    yield {
      place: 'mangle PREROUTING',
      detail,
      operator: 'take packets',
      edit: inserted(lines, commit, detail),
    }
  for (const chain of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) {
    const jump = rules.find(
      (rule) => rule.table === 'nat' && rule.chain === chain && isOwn(rule.target),
    )
    const detail = `-A ${chain} -p tcp -j ACCEPT`
    if (jump)
      yield {
        place: `nat ${chain}`,
        detail,
        operator: 'insert rule',
        edit: inserted(lines, jump.at, detail),
      }
  }
}
