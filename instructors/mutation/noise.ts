import type { Capture } from '../../cluster/capture-folder.ts'
import { foreignRules } from '../../course/incident/baseline.ts'
import { INCIDENT_KEY, isIncidentNote, seal, unseal } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { FOREIGN_RULES, type ForeignRules } from './foreign-rules.ts'
import { isLearnersRule } from './mutation.ts'

/** A change that keeps a good capture good: every passing step must still pass. */
interface Noise {
  what: string
  apply(capture: Capture): Capture
}

/** Pseudorandom numbers in [0, 1), the same in every run. */
function seededNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const rulesOf = (wanted: (rules: ForeignRules) => boolean) => (capture: Capture) =>
  asBeforeIncident(file('iptables-save', (text) => withRules(text, FOREIGN_RULES.filter(wanted)))(capture))

/** Meaningless differences between good clusters, and rules, sets and links of other software. */
export function noise(seed: number): Noise[] {
  const random = seededNumbers(seed)
  const foreign = [...new Set(FOREIGN_RULES.map(({ who }) => who))]
  return [
    {
      what: 'other counters',
      apply: file('iptables-save', (text) =>
        withoutLearnersRules(
          text,
          /\[\d+:\d+\]/,
          () => `[${Math.floor(random() * 1e6)}:${Math.floor(random() * 1e9)}]`,
        ),
      ),
    },
    {
      what: 'no counters',
      apply: file('iptables-save', (text) => withoutLearnersRules(text, /^\[\d+:\d+\] /, () => '')),
    },
    {
      what: 'comments of another tool',
      apply: file(
        'iptables-save',
        (text) =>
          `# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n${text.replaceAll('iptables-save v', 'iptables-nft-save v')}`,
      ),
    },
    { what: 'tables in another order', apply: file('iptables-save', (text) => tablesOf(text).reverse().join('')) },
    { what: 'chains in another order', apply: file('iptables-save', (text) => shuffledRuns(text, /^:KUBE-/, random)) },
    { what: 'members in another order', apply: file('ipset-save', (text) => shuffledRuns(text, /^add /, random)) },
    {
      what: 'other hash values',
      apply: file('ipset-save', (text) =>
        text
          .replace(/initval 0x[0-9a-f]+/g, 'initval 0x1234')
          .replace(/hashsize \d+/g, 'hashsize 4096')
          .replace(/ bucketsize \d+/g, ''),
      ),
    },
    {
      what: 'virtual servers in another order',
      apply: file('ipvsadm-save', (text) => shuffled(text.split(/(?=^-A )/m), random).join('')),
    },
    {
      what: 'real servers in another order',
      apply: file('ipvsadm-save', (text) => shuffledRuns(text, /^-a /, random)),
    },
    { what: 'addresses in another order', apply: file('ip-addr.json', (text) => shuffledAddresses(text, random)) },
    { what: 'links of others', apply: file('ip-addr.json', withLinks) },
    {
      what: 'virtual servers of others',
      apply: (capture) => file('ipvsadm-save', withVirtualServer)(file('ip-addr.json', withLinks)(capture)),
    },
    {
      what: 'objects in another order',
      apply: (capture) => ({
        ...capture,
        objects: { ...capture.objects, items: shuffled(capture.objects.items, random) },
      }),
    },
    {
      what: 'sets of others',
      apply: (capture) =>
        file(
          'ipset-save',
          (text) =>
            `${text.trimEnd()}\ncreate f2b-sshd hash:ip family inet hashsize 1024 maxelem 65536\nadd f2b-sshd 198.51.100.7\n`,
        )(capture),
    },
    ...foreign.map((who) => ({ what: `rules of ${who}`, apply: rulesOf((rules) => rules.who === who) })),
    { what: 'rules of all of them', apply: rulesOf(() => true) },
  ]
}

/** Edits one file of every node that has it. */
function file(name: string, edit: (text: string) => string) {
  return (capture: Capture): Capture => ({
    ...capture,
    nodes: capture.nodes.map((node) => {
      const text = node.files.get(name)
      return text ? { ...node, files: new Map(node.files).set(name, edit(text)) } : node
    }),
  })
}

/** Replaces in every line except the learner's own rules, whose counters lab 1 uses. */
function withoutLearnersRules(text: string, pattern: RegExp, replacement: () => string): string {
  const lines = text.split('\n')
  return lines.map((line) => (isLearnersRule(line) ? line : line.replace(pattern, replacement))).join('\n')
}

const tablesOf = (text: string) => text.split(/(?<=^COMMIT\n)/m)

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

/** Shuffles every run of neighbouring lines that match. */
function shuffledRuns(text: string, pattern: RegExp, random: () => number): string {
  const out: string[] = []
  let run: string[] = []
  for (const line of text.split('\n')) {
    if (pattern.test(line)) run.push(line)
    else {
      out.push(...shuffled(run, random), line)
      run = []
    }
  }
  return [...out, ...shuffled(run, random)].join('\n')
}

function shuffledAddresses(text: string, random: () => number): string {
  const links: { addr_info?: unknown[] }[] = JSON.parse(text)
  return JSON.stringify(
    links.map((link) => ({ ...link, ...(link.addr_info ? { addr_info: shuffled(link.addr_info, random) } : {}) })),
  )
}

/** TEST-NET-1 (RFC 5737): an address that a user added to a dummy device. */
const OTHER_ADDRESS = '192.0.2.9'

/** There are no virtual servers for node ports on their addresses, as before kube-proxy's next sync. */
function withLinks(text: string): string {
  const link = (ifname: string, info_kind: string, local?: string) => ({
    ifindex: 90,
    ifname,
    flags: ['BROADCAST', 'MULTICAST'],
    mtu: 1500,
    operstate: 'DOWN',
    linkinfo: { info_kind },
    addr_info: local === undefined ? [] : [{ family: 'inet', local, prefixlen: 32, scope: 'global', label: ifname }],
  })
  return JSON.stringify([
    ...JSON.parse(text),
    link('br-docker', 'bridge', '172.31.0.1'),
    link('dummy0', 'dummy', OTHER_ADDRESS),
    link('tunl0', 'ipip'),
  ])
}

const withVirtualServer = (text: string) =>
  `${text.trimEnd()}\n-A -t ${OTHER_ADDRESS}:8080 -s rr\n-a -t ${OTHER_ADDRESS}:8080 -r 192.0.2.10:80 -m -w 1\n`.trimStart()

/** Adds chains and rules as iptables-save would list them: chains first, rules of a chain in their order. */
function withRules(text: string, foreign: readonly ForeignRules[]): string {
  return tablesOf(text)
    .map((tableText) => {
      const table = /^\*(\w+)$/m.exec(tableText)?.[1]
      return foreign.filter((rules) => rules.table === table).reduce(withTableRules, tableText)
    })
    .join('')
}

function withTableRules(text: string, { chains, rules, onTop, below }: ForeignRules): string {
  const lines = text.split('\n')
  const ruleOf = (chain: string) => (line: string) => line.replace(/^\[\d+:\d+\] /, '').startsWith(`-A ${chain} `)
  const firstRule = () => {
    const at = lines.findIndex((line) => /^(?:\[\d+:\d+\] )?-A /.test(line))
    return at === -1 ? lines.indexOf('COMMIT') : at
  }
  for (const rule of below) {
    const chain = rule.split(' ')[1] ?? ''
    const last = lines.findLastIndex(ruleOf(chain))
    lines.splice(last === -1 ? firstRule() : last + 1, 0, rule)
  }
  for (const rule of onTop.toReversed()) {
    const first = lines.findIndex(ruleOf(rule.split(' ')[1] ?? ''))
    lines.splice(first === -1 ? firstRule() : first, 0, rule)
  }
  lines.splice(lines.indexOf('COMMIT'), 0, ...rules)
  const declared = chains.filter((chain) => !lines.some((line) => line.startsWith(`:${chain} `)))
  lines.splice(firstRule(), 0, ...declared.map((chain) => `:${chain} - [0:0]`))
  return lines.join('\n')
}

/**
 * A capture in which the foreign rules also existed before the incident: lab 8 claims that they are unchanged, so rules added
 * by the noise would be a true alarm. A capture without an incident is returned unchanged.
 */
function asBeforeIncident(capture: Capture): Capture {
  const items = capture.objects.items.map((item) => (isNotes(item) ? resealed(item, capture) : item))
  return { ...capture, objects: { ...capture.objects, items } }
}

interface Notes {
  data: Record<string, string>
}

function resealed(notes: Notes, capture: Capture): Notes {
  const note: unknown = JSON.parse(notes.data[INCIDENT_KEY] ?? 'null')
  const secret = isIncidentNote(note) ? unseal(note.sealed) : undefined
  if (!isIncidentNote(note) || !secret) return notes
  const foreign = Object.fromEntries(new Snapshot(capture).nodes.map((node) => [node.name, foreignRules(node)]))
  const sealed = seal({ ...secret, baseline: { ...secret.baseline, foreign } })
  return { ...notes, data: { ...notes.data, [INCIDENT_KEY]: JSON.stringify({ ...note, sealed }) } }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

const isNotes = (item: unknown): item is Notes =>
  isRecord(item) &&
  item.kind === 'ConfigMap' &&
  isRecord(item.metadata) &&
  item.metadata.name === notesName(INCIDENT_LAB) &&
  isRecord(item.data)
