import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Capture } from '../cluster/capture-folder.ts'
import { interfaceName } from '../embedded/index.ts'
import { seedOf } from '../grading/class-key.ts'
import type { DrawnKind } from '../instructors/class/drawn-values.ts'
import { writeSubmission } from '../instructors/submission/pack.ts'
import { readSubmission, type Submission } from '../instructors/submission/read-submission.ts'

/** The values that are replaced: those that a cluster generates at random, and those that differ between two runs of one cluster. */
export type Rewritten = DrawnKind | 'dates' | 'counters'

export const EVERYTHING: readonly Rewritten[] = [
  ...(['uid', 'name', 'container', 'boot', 'mac', 'veth', 'initval', 'flow', 'ages', 'log'] as const),
  ...(['dates', 'counters'] as const),
]

const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g
const VETH = /\bveth[0-9a-f]{8}\b/g
const MAC = /\b[0-9a-f][26ae](?::[0-9a-f]{2}){5}\b/g
const INITVAL = /(?<=\binitval 0x)[0-9a-f]{1,8}\b/g
const CONTAINER = /(?<=:\/\/)[0-9a-f]{64}\b/g
const VERSION = /(?<="resourceVersion":")\d+(?=")/g
const DATE = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g
const COUNTER = /\[(\d+):(\d+)\]/g
const SAVED = /(?<=^# (?:Generated|Completed) .* on ).*$/gm
const LOGGED = /^([IWEF]\d{4}) (\d\d:\d\d:\d\d)\.(\d+)/gm
const BTIME = /(?<=^btime )\d+$/m
const LINE = /^.+$/gm
const OBJECTS = /^objects\.json$/
const LOG = /^kube-proxy\.log$/
const RULES = /^ip6?tables-save$/
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789'

/** What is replaced in the files that match. */
interface Rewrite {
  kind: Rewritten
  files: RegExp
  pattern: RegExp
  replace: (value: string, ...groups: string[]) => string
}

/**
 * Rewrites captures of one cluster as if they came from another one: the values of `kinds` are replaced, equal values by
 * equal ones everywhere. With EVERYTHING no value remains that two clusters can't share.
 */
export class OtherCluster {
  readonly #seed: string
  readonly #shiftMs: number
  readonly #rewrites: readonly Rewrite[]

  constructor(captures: Iterable<Capture>, seed: string, kinds: readonly Rewritten[], shiftMs = 0) {
    this.#seed = seed
    this.#shiftMs = shiftMs
    const names = new Map<string, string>()
    const veths = new Map<string, string>()
    for (const { objects } of captures)
      for (const { metadata = {} } of objects.items as { metadata?: Record<string, string> }[]) {
        const { uid = '', name = '', generateName } = metadata
        if (generateName) names.set(name, generateName + this.#letters(name))
        const other = kinds.includes('uid') ? this.#uuid(uid) : `other ${uid}`
        veths.set(interfaceName('veth', uid), interfaceName('veth', other))
      }
    const all = this.#allRewrites(names, veths)
    this.#rewrites = all.filter(({ kind }) => kinds.includes(kind))
  }

  /** In the order in which they are made: a log line is recognised by its date, which changes last. */
  #allRewrites(names: ReadonlyMap<string, string>, veths: ReadonlyMap<string, string>): Rewrite[] {
    const longestFirst = [...names.keys()].sort((a, b) => b.length - a.length)
    const anyName = longestFirst.length > 0 ? new RegExp(longestFirst.join('|'), 'g') : /(?!)/g
    const factor = 2 + this.#number('counters', 9973)
    const rewrite = (kind: Rewritten, files: RegExp, pattern: RegExp, replace: Rewrite['replace']): Rewrite => ({
      kind,
      files,
      pattern,
      replace,
    })
    return [
      rewrite('name', /./, anyName, (name) => names.get(name) ?? name),
      rewrite('mac', /./, MAC, (mac) => this.#mac(mac)),
      rewrite('veth', /./, VETH, (veth) => veths.get(veth) ?? interfaceName('veth', this.#hex(veth, 8))),
      rewrite('uid', OBJECTS, UUID, (uid) => this.#uuid(uid)),
      rewrite('container', OBJECTS, CONTAINER, (id) => this.#hex(id, 64)),
      rewrite('ages', OBJECTS, VERSION, (version) => String(Number(version) + this.#number('version', 5000) + 1)),
      rewrite('dates', OBJECTS, DATE, (date) => this.date(date)),
      rewrite('initval', /^ipset-save$/, INITVAL, (value) => this.#hex(value, 8)),
      rewrite('flow', /^conntrack$/, LINE, (line) => this.#flow(line)),
      rewrite('log', LOG, LOGGED, (line, day = '', time = '') => {
        return `${day} ${time}.${String(this.#number(line, 10 ** 6)).padStart(6, '0')}`
      }),
      rewrite('dates', LOG, LOGGED, (_line, day = '', time = '', fraction = '') => {
        const [month, date] = [day.slice(1, 3), day.slice(3)]
        const at = new Date(Date.parse(`2026-${month}-${date}T${time}Z`) + this.#shiftMs).toISOString()
        return `${day[0]}${at.slice(5, 7)}${at.slice(8, 10)} ${at.slice(11, 19)}.${fraction}`
      }),
      rewrite('boot', /^boot$/, UUID, (id) => this.#uuid(id)),
      rewrite('dates', /^boot$/, BTIME, (seconds) => String(Number(seconds) + this.#shiftMs / 1000)),
      rewrite('counters', RULES, COUNTER, (_all, packets, bytes) => {
        return `[${factor * Number(packets)}:${factor * Number(bytes)}]`
      }),
      rewrite('dates', RULES, SAVED, (saved) => {
        const at = new Date(Date.parse(`${saved} UTC`) + this.#shiftMs)
        return at.toUTCString().replace(/^(\w+), (\d+) (\w+) (\d+) (\S+) GMT$/, '$1 $3 $2 $5 $4')
      }),
    ]
  }

  rewrite({ objects, nodes }: Capture): Capture {
    return {
      objects: JSON.parse(this.#text('objects.json', JSON.stringify(objects))),
      nodes: nodes.map(({ name, files }) => ({
        name,
        files: new Map([...files].map(([file, text]) => [file, this.#text(file, text)])),
      })),
    }
  }

  date(text: string): string {
    const at = new Date(Date.parse(text) + this.#shiftMs).toISOString()
    return text.includes('.') ? at : at.replace(/\.\d+/, '')
  }

  #text(file: string, text: string): string {
    const own = this.#rewrites.filter(({ files }) => files.test(file))
    return own.reduce((rewritten, { pattern, replace }) => rewritten.replace(pattern, replace), text)
  }

  /** The conntrack entry of a connection whose source port was rewritten gets two other ports. */
  #flow(line: string): string {
    const ports = [...line.matchAll(/\b[sd]port=(\d+)/g)].map(([, port]) => port)
    if (ports.length !== 4 || ports[0] === ports[3]) return line
    const other = (port: string) => String(1024 + this.#number(`port ${port}`, 60_000))
    return line
      .replace(/(?<=\bsport=)\d+/, other)
      .replace(/^(.*\bdport=)(\d+)/, (_all, before: string, port: string) => before + other(port))
  }

  #uuid(value: string): string {
    return this.#hex(value, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  }

  #mac(value: string): string {
    return value.slice(0, 2) + this.#hex(value, 10).replace(/../g, ':$&')
  }

  #letters(value: string): string {
    return [0, 1, 2, 3, 4].map((place) => LETTERS[this.#number(`${value} ${place}`, LETTERS.length)]).join('')
  }

  #number(value: string, below: number): number {
    return Number.parseInt(this.#hex(value, 12), 16) % below
  }

  #hex(value: string, length: number): string {
    return createHash('sha256').update(`${this.#seed} ${value}`).digest('hex').slice(0, length)
  }
}

const DRAWN = /\b10\.96\.\d+\.\d+\b/g
/** The range, the API server and DNS: addresses that are the same in every cluster. */
const GIVEN = ['10.96.0.0', '10.96.0.1', '10.96.0.10']
/** Time between two submissions. */
const APART_MS = 97_000

/**
 * Makes the submissions of a class with this many learners from recorded ones, in turn. No two share a random value, a date
 * or a drawn ClusterIP. Returns the files, in a new temporary folder.
 */
export async function makeClass(
  recorded: readonly string[],
  count: number,
): Promise<{ folder: string; files: string[] }> {
  const originals = await Promise.all(recorded.map((file) => readSubmission(file)))
  const folder = mkdtempSync(join(tmpdir(), 'class-'))
  const files: string[] = []
  for (let index = 1; index <= count; index++) {
    const original = originals[index % originals.length]
    if (!original) break
    const learner = `learner${String(index).padStart(4, '0')}`
    const { file, bytes } = ownSubmission(original, learner, index * APART_MS)
    files.push(join(folder, file))
    writeFileSync(join(folder, file), bytes)
  }
  return { folder, files }
}

function ownSubmission({ manifest, captures }: Submission, learner: string, earlierMs: number) {
  const { schema: _schema, captures: _captures, steps, submittedAt, ...about } = manifest
  const key = Number.parseInt(seedOf(learner).slice(0, 8), 16)
  const others = [...captures.values()].map(({ capture }) => capture)
  const other = new OtherCluster(others, learner, EVERYTHING, -earlierMs)
  const own = [...captures].map(([id, { capture, takenAt }]) => ({
    id,
    takenAt: other.date(new Date(takenAt).toISOString()),
    capture: withOwnAddresses(other.rewrite(capture), key),
  }))
  const passed = steps.map((step) => (step.passedAt ? { ...step, passedAt: other.date(step.passedAt) } : step))
  const described = { ...about, learner, seed: seedOf(learner), submittedAt: other.date(submittedAt), steps: passed }
  return { file: `${learner}-lab${manifest.lab}.labgrade`, bytes: writeSubmission(described, own) }
}

function withOwnAddresses(capture: Capture, key: number): Capture {
  const objects = JSON.stringify(capture.objects)
  const drawn = drawnAddresses(objects, key)
  const own = (text: string) => text.replace(DRAWN, (address) => drawn.get(address) ?? address)
  const nodes = capture.nodes.map(({ name, files }) => ({
    name,
    files: new Map([...files].map(([file, content]) => [file, own(content)])),
  }))
  return { objects: JSON.parse(own(objects)), nodes }
}

/** Randomly assigned ClusterIPs, each with a replacement. */
function drawnAddresses(objects: string, key: number): Map<string, string> {
  const drawn = [...new Set(objects.match(DRAWN))].filter((address) => !GIVEN.includes(address))
  const thirds = drawn.map((address) => Number(address.split('.')[2]))
  const other = [...Array(255).keys()].map((step) => 1 + ((key + step) % 255)).find((one) => !thirds.includes(one)) ?? 1
  return new Map(
    drawn.map((address, index) => [
      address,
      address.replace(/(?<=^\d+\.\d+\.)\d+/, String((thirds[index] ?? 0) ^ other)),
    ]),
  )
}
