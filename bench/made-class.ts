import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Capture } from '../cluster/capture-folder.ts'
import { interfaceName } from '../embedded/index.ts'
import { seedOf } from '../grading/signature.ts'
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
const LOGGED = /^([IWEF])(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d+)/gm
const BTIME = /(?<=^btime )\d+$/m
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789'

/**
 * Rewrites captures of one cluster as if they came from another one: the values of `kinds` are replaced, equal values by
 * equal ones everywhere. With EVERYTHING no value remains that two clusters can't share.
 */
export class OtherCluster {
  readonly #seed: string
  readonly #kinds: ReadonlySet<Rewritten>
  readonly #shiftMs: number
  readonly #names = new Map<string, string>()
  readonly #veths = new Map<string, string>()
  readonly #anyName: RegExp | undefined

  constructor(captures: Iterable<Capture>, seed: string, kinds: readonly Rewritten[], shiftMs = 0) {
    this.#seed = seed
    this.#kinds = new Set(kinds)
    this.#shiftMs = shiftMs
    for (const { objects } of captures)
      for (const item of objects.items as { metadata?: Record<string, string> }[]) this.#learn(item.metadata ?? {})
    const names = [...this.#names.keys()].sort((a, b) => b.length - a.length)
    if (names.length > 0) this.#anyName = new RegExp(names.join('|'), 'g')
  }

  rewrite({ objects, nodes }: Capture): Capture {
    return {
      objects: JSON.parse(this.#objects(JSON.stringify(objects))),
      nodes: nodes.map(({ name, files }) => ({
        name,
        files: new Map([...files].map(([file, text]) => [file, this.#file(file, text)])),
      })),
    }
  }

  date(text: string): string {
    const at = new Date(Date.parse(text) + this.#shiftMs).toISOString()
    return text.includes('.') ? at : at.replace(/\.\d+/, '')
  }

  #learn({ uid = '', name = '', generateName }: Record<string, string>): void {
    if (generateName) this.#names.set(name, generateName + this.#letters(name))
    this.#veths.set(
      interfaceName('veth', uid),
      interfaceName('veth', this.#has('uid') ? this.#uuid(uid) : `other ${uid}`),
    )
  }

  #objects(text: string): string {
    let own = this.#everywhere(text)
    if (this.#has('uid')) own = own.replace(UUID, (uid) => this.#uuid(uid))
    if (this.#has('container')) own = own.replace(CONTAINER, (id) => this.#hex(id, 64))
    if (this.#has('ages'))
      own = own.replace(VERSION, (version) => String(Number(version) + this.#number('version', 5000) + 1))
    return this.#has('dates') ? own.replace(DATE, (date) => this.date(date)) : own
  }

  #file(file: string, text: string): string {
    const own = this.#everywhere(text)
    switch (file) {
      case 'ipset-save':
        return this.#has('initval') ? own.replace(INITVAL, (value) => this.#hex(value, 8)) : own
      case 'conntrack':
        return this.#has('flow')
          ? own
              .split('\n')
              .map((line) => this.#flow(line))
              .join('\n')
          : own
      case 'kube-proxy.log':
        return own.replace(LOGGED, (...line) => this.#logged(line))
      case 'boot':
        return this.#boot(own)
      case 'iptables-save':
      case 'ip6tables-save':
        return this.#rules(own)
      default:
        return own
    }
  }

  #everywhere(text: string): string {
    let own = text
    if (this.#has('name') && this.#anyName) own = own.replace(this.#anyName, (name) => this.#names.get(name) ?? name)
    if (this.#has('mac')) own = own.replace(MAC, (mac) => this.#mac(mac))
    if (this.#has('veth'))
      own = own.replace(VETH, (veth) => this.#veths.get(veth) ?? interfaceName('veth', this.#hex(veth, 8)))
    return own
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

  #rules(text: string): string {
    const factor = 2 + this.#number('counters', 9973)
    const counted = this.#has('counters')
      ? text.replace(COUNTER, (_all, packets, bytes) => `[${factor * Number(packets)}:${factor * Number(bytes)}]`)
      : text
    if (!this.#has('dates')) return counted
    return counted.replace(SAVED, (saved) => {
      const at = new Date(Date.parse(`${saved} UTC`) + this.#shiftMs)
      return at.toUTCString().replace(/^(\w+), (\d+) (\w+) (\d+) (\S+) GMT$/, '$1 $3 $2 $5 $4')
    })
  }

  #logged([all, level = '', month = '', day = '', time = '', fraction = '']: string[]): string {
    const at = new Date(Date.parse(`2026-${month}-${day}T${time}Z`) + (this.#has('dates') ? this.#shiftMs : 0))
    const other = this.#has('log') ? String(this.#number(String(all), 10 ** 6)).padStart(6, '0') : fraction
    const [date = '', clock = ''] = at.toISOString().slice(5, 19).split('T')
    return `${level}${date.replace('-', '')} ${clock}.${other}`
  }

  #boot(text: string): string {
    const own = this.#has('boot') ? text.replace(UUID, (id) => this.#uuid(id)) : text
    return this.#has('dates') ? own.replace(BTIME, (seconds) => String(Number(seconds) + this.#shiftMs / 1000)) : own
  }

  #has(kind: Rewritten): boolean {
    return this.#kinds.has(kind)
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
