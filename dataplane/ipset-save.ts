// Output of `ipset save`: create KUBE-CLUSTER-IP hash:ip,port family inet … / add KUBE-CLUSTER-IP
// 10.96.0.1,tcp:443

import { PROTOCOL_NUMBERS } from './ip-address.ts'
import { LineError, quoteWord, readLines, splitWords } from './program-output.ts'

/**
 * One set. `members` contains the text after `add NAME ` (see readElement), `options` the options
 * of the create line.
 */
export interface IpSet {
  name: string
  type: string
  options: Record<string, string>
  members: Set<string>
}

/** Sets by name. */
export type IpSets = Map<string, IpSet>

/** Options of a create line without a value; they are kept with the value ''. */
const FLAGS = new Set(['counters', 'comment', 'skbinfo', 'forceadd', 'wildcard'])
/** Extensions of a member line with one value each, which do not affect which packets match. */
const EXTENSIONS = new Set(
  'timeout packets bytes comment skbmark skbprio skbqueue before after'.split(' '),
)

/**
 * Reads the output of `ipset save`. Throws ParseError for any other line, a member of a set not
 * created above it, and a set created twice.
 */
export function parseIpsetSave(text: string): IpSets {
  const sets: IpSets = new Map()
  readLines('ipset save', text, (line) => {
    if (line.startsWith('add ')) parseSetMember(line, sets)
    else if (line.startsWith('create ')) readSet(line, sets)
    else if (line.trim() !== '' && !line.startsWith('#'))
      throw new LineError('not a line of ipset save')
  })
  return sets
}

function readSet(line: string, sets: IpSets): void {
  const [, name, type, ...tokens] = splitWords(line) ?? []
  if (name === undefined || type === undefined)
    throw new LineError('not of the form "create NAME TYPE …"')
  if (sets.has(name)) throw new LineError('this set is created twice')
  const options = new Map<string, string>()
  for (let at = 0; at < tokens.length; at++) {
    const option = tokens[at] ?? ''
    const value = FLAGS.has(option) ? '' : tokens[++at]
    if (value === undefined) throw new LineError(`the option ${option} has no value`)
    options.set(option, value)
  }
  sets.set(name, { name, type, options: Object.fromEntries(options), members: new Set() })
}

function parseSetMember(line: string, sets: IpSets): void {
  const nameEnd = line.indexOf(' ', 4)
  const set = sets.get(line.slice(4, nameEnd === -1 ? line.length : nameEnd))
  if (!set) throw new LineError('a member of a set that is not created above')
  const member = nameEnd === -1 ? undefined : readElement(line.slice(nameEnd + 1))
  if (!member) throw new LineError('not of the form "add NAME MEMBER"')
  set.members.add(member)
}

/**
 * `,6:80`: on a node without /etc/protocols, ipset prints numbers of protocols (ipset_print_proto).
 */
const PROTOCOL_NUMBER = /,(6|17|132)(?=:\d+(?:,|$))/

const withProtocolName = (element: string): string =>
  element.replace(PROTOCOL_NUMBER, (_, number: string) => `,${PROTOCOL_NUMBERS[number]}`)

/**
 * A member without counters, timeouts and comments; `nomatch` is kept. Undefined if the text is not
 * a member.
 */
function readElement(text: string): string | undefined {
  if (!text.includes(' ')) return withProtocolName(text)
  const [element, ...tokens] = splitWords(text) ?? []
  let nomatch = ''
  for (let at = 0; at < tokens.length; at++) {
    const word = tokens[at] ?? ''
    if (word === 'nomatch') nomatch = ' nomatch'
    else if (!EXTENSIONS.has(word) || ++at >= tokens.length) return undefined
  }
  return element && `${withProtocolName(element)}${nomatch}`
}

/**
 * Prints sets as `ipset save` does; `ipset restore` reads it. Lists of sets follow the sets that
 * they may contain.
 */
export function printIpsetSave(sets: IpSets): string {
  const lines: string[] = []
  const ordered = [...sets.values()].sort(
    (a, b) => Number(a.type === 'list:set') - Number(b.type === 'list:set'),
  )
  for (const set of ordered) {
    const options = Object.entries(set.options).map(([option, value]) => {
      return value === ''
        ? ` ${option}`
        : ` ${option} ${/[\s"\\]/.test(value) ? quoteWord(value) : value}`
    })
    lines.push(`create ${set.name} ${set.type}${options.join('')}`)
    for (const member of set.members) lines.push(`add ${set.name} ${member}`)
  }
  return lines.map((line) => `${line}\n`).join('')
}
