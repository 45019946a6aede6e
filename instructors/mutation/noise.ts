import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Capture } from '../../cluster/capture-folder.ts'
import { foreignRules } from '../../course/incident/baseline.ts'
import { INCIDENT_KEY, incidentNote, seal, unseal } from '../../course/incident/incident-note.ts'
import type { ApiObject } from '../../grading/api-object.ts'
import { listLabs } from '../../grading/lab-definition.ts'
import { notesOf } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
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

/**
 * Rules that other software keeps in the tables that kube-proxy writes to, as scripts of
 * iptables-restore, by who writes them.
 */
const FOREIGN_RULES: readonly (readonly [who: string, script: string])[] = readFileSync(
  join(projectRoot, 'instructors/mutation/foreign-rules.iptables'),
  'utf8',
)
  .split(/^# /m)
  .slice(1)
  .map((part) => [part.slice(0, part.indexOf('\n')), part.slice(part.indexOf('\n') + 1)])

const rulesOf =
  (...scripts: string[]) =>
  (capture: Capture) =>
    asBeforeIncident(file('iptables-save', (text) => withRules(text, scripts))(capture))

/** Meaningless differences between good clusters, and rules, sets and links of other software. */
export function noise(seed: number): Noise[] {
  const random = seededNumbers(seed)
  const upTo = (most: number) => Math.floor(random() * most)
  const withLines = (name: string, begin: string) =>
    file(name, (text) => shuffledRuns(text, begin, random))
  const links = file('ip-addr.json', withLinks)
  const changes: Record<string, Noise['apply']> = {
    'other counters': counters(/\[\d+:\d+\]/, () => `[${upTo(1e6)}:${upTo(1e9)}]`),
    'no counters': counters(/^\[\d+:\d+\] /, () => ''),
    'comments of another tool': file(
      'iptables-save',
      (text) => `${LEGACY_WARNING}\n${text.replaceAll('iptables-save v', 'iptables-nft-save v')}`,
    ),
    'tables in another order': file('iptables-save', (text) => tablesOf(text).reverse().join('')),
    'chains in another order': withLines('iptables-save', ':KUBE-'),
    'members in another order': withLines('ipset-save', 'add '),
    'other hash values': file('ipset-save', (text) =>
      text
        .replace(/initval 0x[0-9a-f]+/g, 'initval 0x1234')
        .replace(/hashsize \d+/g, 'hashsize 4096')
        .replace(/ bucketsize \d+/g, ''),
    ),
    'virtual servers in another order': file('ipvsadm-save', (text) =>
      shuffled(text.split(/(?=^-A )/m), random).join(''),
    ),
    'real servers in another order': withLines('ipvsadm-save', '-a '),
    'addresses in another order': file('ip-addr.json', (text) => shuffledAddresses(text, random)),
    'links of others': links,
    'virtual servers of others': (capture) =>
      file('ipvsadm-save', withVirtualServer)(links(capture)),
    'objects in another order': ({ objects, ...capture }) => ({
      ...capture,
      objects: { ...objects, items: shuffled(objects.items, random) },
    }),
    'sets of others': file('ipset-save', (text) => `${text.trimEnd()}\n${OTHER_SET}`),
    ...Object.fromEntries(
      FOREIGN_RULES.map(([who, script]) => [`rules of ${who}`, rulesOf(script)]),
    ),
    'rules of all of them': rulesOf(...FOREIGN_RULES.map(([, script]) => script)),
  }
  return Object.entries(changes).map(([what, apply]) => ({ what, apply }))
}

const LEGACY_WARNING =
  '# Warning: iptables-legacy tables present, use iptables-legacy-save to see them'

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

/** Replaces counters in every line except the learner's own rules, which lab 1 reads. */
const counters = (pattern: RegExp, replacement: () => string) =>
  file('iptables-save', (text) =>
    text
      .split('\n')
      .map((line) => (isLearnersRule(line) ? line : line.replace(pattern, replacement)))
      .join('\n'),
  )

const tablesOf = (text: string) => text.split(/(?<=^COMMIT\n)/m)

const shuffled = <Item>(items: readonly Item[], random: () => number): Item[] =>
  items
    .map((item) => [random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item)

/** Shuffles every run of neighbouring lines that begin like this. */
const shuffledRuns = (text: string, begin: string, random: () => number): string =>
  text.replace(new RegExp(`(?:^${begin}.*\\n)+`, 'gm'), (run) =>
    shuffled(run.match(/.*\n/g) ?? [], random).join(''),
  )

function shuffledAddresses(text: string, random: () => number): string {
  const links: { addr_info?: unknown[] }[] = JSON.parse(text)
  return JSON.stringify(
    links.map((link) => ({
      ...link,
      ...(link.addr_info ? { addr_info: shuffled(link.addr_info, random) } : {}),
    })),
  )
}

const OTHER_SET =
  'create f2b-sshd hash:ip family inet hashsize 1024 maxelem 65536\nadd f2b-sshd 198.51.100.7\n'

/** TEST-NET-1 (RFC 5737): an address that a user added to a dummy device. */
const OTHER_ADDRESS = '192.0.2.9'

/**
 * There are no virtual servers for node ports on their addresses, as before kube-proxy's next sync.
 */
function withLinks(text: string): string {
  const link = (ifname: string, info_kind: string, local?: string) => ({
    ifindex: 90,
    ifname,
    flags: ['BROADCAST', 'MULTICAST'],
    mtu: 1500,
    operstate: 'DOWN',
    linkinfo: { info_kind },
    addr_info:
      local === undefined
        ? []
        : [{ family: 'inet', local, prefixlen: 32, scope: 'global', label: ifname }],
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

/**
 * Adds the rules of a script to each table, as iptables-save lists them after
 * `iptables-restore --noflush`.
 */
function withRules(text: string, scripts: readonly string[]): string {
  return tablesOf(text)
    .map((tableText) => {
      const table = /^\*\w+\n/m.exec(tableText)?.[0]
      if (table === undefined) return tableText
      const lines = scripts.flatMap(
        (script) => script.split(table)[1]?.split(/^\*/m)[0]?.split('\n') ?? [],
      )
      return lines.reduce(withRule, tableText)
    })
    .join('')
}

/** Adds a chain, a rule on top of its chain (-I), or one at its end (-A). */
function withRule(text: string, line: string): string {
  const lines = text.split('\n')
  const [verb = '', chain = ''] = line.split(' ')
  const isOfChain = (other: string) => other.replace(/^\[\d+:\d+\] /, '').startsWith(`-A ${chain} `)
  const at = verb === '-I' ? lines.findIndex(isOfChain) : lines.findLastIndex(isOfChain) + 1
  if (verb.startsWith(':') && !lines.some((other) => other.startsWith(`${verb} `)))
    lines.splice(lines.findIndex((other) => other.startsWith('*')) + 1, 0, `${verb} - [0:0]`)
  else if (chain !== '')
    lines.splice(at > 0 ? at : lines.indexOf('COMMIT'), 0, line.replace(/^-I/, '-A'))
  return lines.join('\n')
}

/**
 * A capture in which the foreign rules also existed before the incident of lab 8, or of another
 * lab's last step: they claim that these are unchanged, so rules added by the noise would be a true
 * alarm. A capture without an incident is returned unchanged.
 */
function asBeforeIncident(capture: Capture): Capture {
  const all = listLabs().flatMap(({ number }) => notesOf(capture.objects.items, number) ?? [])
  const items = capture.objects.items.map((item) => {
    const notes = all.find((one) => one === item)
    return notes ? resealed(notes, capture) : item
  })
  return { ...capture, objects: { ...capture.objects, items } }
}

function resealed(notes: ApiObject, capture: Capture): ApiObject {
  const note = incidentNote.safeParse(JSON.parse(notes.data?.[INCIDENT_KEY] ?? 'null')).data
  const secret = note && unseal(note.sealed)
  if (!secret) return notes
  const foreign = Object.fromEntries(
    new Snapshot(capture).nodes.map((node) => [node.name, foreignRules(node)]),
  )
  const sealed = seal({ ...secret, baseline: { ...secret.baseline, foreign } })
  return { ...notes, data: { ...notes.data, [INCIDENT_KEY]: JSON.stringify({ ...note, sealed }) } }
}
