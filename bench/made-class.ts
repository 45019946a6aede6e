import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Capture } from '../cluster/capture-folder.ts'
import { seedOf } from '../grading/class-key.ts'
import { writeSubmission } from '../instructors/submission/pack.ts'
import { readSubmission, type Submission } from '../instructors/submission/read-submission.ts'

/**
 * The values that are replaced: those that a cluster generates at random, and those that differ
 * between two runs of one cluster.
 */
export const EVERYTHING = ['uid', 'flow', 'dates', 'counters'] as const
export type Rewritten = (typeof EVERYTHING)[number]

const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g
const DATE = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g
const COUNTER = /\[\d+:\d+\]/g
const SAVED = /(?<=^# (?:Generated|Completed) .* on ).*$/gm
const LOGGED = /^([IWEF])(\d\d)(\d\d) (\d\d:\d\d:\d\d)(?=\.\d)/gm
const LINE = /^.+$/gm
const OBJECTS = /^objects\.json$/
const LOG = /^kube-proxy\.log$/
const RULES = /^ip6?tables-save$/

/** What is replaced in the files that match. */
type Rewrite = readonly [kind: Rewritten, files: RegExp, pattern: RegExp, replace: Replace]
type Replace = (value: string, ...groups: string[]) => string

/**
 * Rewrites captures of one cluster as if they came from another one: the values of `kinds` are
 * replaced, equal values by equal ones everywhere. With EVERYTHING no value remains that two
 * clusters can't share.
 */
export class OtherCluster {
  readonly #seed: string
  readonly #shiftMs: number
  readonly #rewrites: readonly Rewrite[]

  constructor(seed: string, kinds: readonly Rewritten[], shiftMs = 0) {
    this.#seed = seed
    this.#shiftMs = shiftMs
    this.#rewrites = this.#allRewrites().filter(([kind]) => kinds.includes(kind))
  }

  #allRewrites(): Rewrite[] {
    const factor = 2 + this.#number('counters', 9973)
    return [
      ['uid', OBJECTS, UUID, (uid) => this.#uuid(uid)],
      ['dates', OBJECTS, DATE, (date) => this.date(date)],
      ['flow', /^conntrack$/, LINE, (line) => this.#flow(line)],
      ['dates', LOG, LOGGED, (_line, ...moment) => this.#logged(moment)],
      [
        'counters',
        RULES,
        COUNTER,
        (counts) => counts.replace(/\d+/g, (count) => String(factor * Number(count))),
      ],
      ['dates', RULES, SAVED, (saved) => this.#saved(saved)],
    ]
  }

  #logged([level, month, date, time]: string[]): string {
    const at = new Date(Date.parse(`2026-${month}-${date}T${time}Z`) + this.#shiftMs).toISOString()
    return `${level}${at.slice(5, 7)}${at.slice(8, 10)} ${at.slice(11, 19)}`
  }

  #saved(saved: string): string {
    const at = new Date(Date.parse(`${saved} UTC`) + this.#shiftMs)
    return at.toUTCString().replace(/^(\w+), (\d+) (\w+) (\d+) (\S+) GMT$/, '$1 $3 $2 $5 $4')
  }

  rewrite(capture: Capture): Capture {
    return withTexts(capture, (text, path) => {
      const own = this.#rewrites.filter(([, files]) => files.test(basename(path)))
      return own.reduce(
        (rewritten, [, , pattern, replace]) => rewritten.replace(pattern, replace),
        text,
      )
    })
  }

  date(text: string): string {
    const at = new Date(Date.parse(text) + this.#shiftMs).toISOString()
    return text.includes('.') ? at : at.replace(/\.\d+/, '')
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

  #number(value: string, below: number): number {
    return Number.parseInt(this.#hex(value, 12), 16) % below
  }

  #hex(value: string, length: number): string {
    return createHash('sha256').update(`${this.#seed} ${value}`).digest('hex').slice(0, length)
  }
}

/** A capture with other texts in its files; `path` is as in a capture folder. */
export const withTexts = (
  { objects, nodes }: Capture,
  edit: (text: string, path: string) => string,
): Capture => ({
  objects: JSON.parse(edit(JSON.stringify(objects), 'objects.json')),
  nodes: nodes.map(({ name, files }) => ({
    name,
    files: new Map([...files].map(([file, text]) => [file, edit(text, `nodes/${name}/${file}`)])),
  })),
})

const DRAWN = /\b10\.96\.\d+\.\d+\b/g
/** The range, the API server and DNS: addresses that are the same in every cluster. */
const GIVEN = ['10.96.0.0', '10.96.0.1', '10.96.0.10']
/** Time between two submissions. */
const APART_MS = 97_000

/**
 * Makes the submissions of a class with this many learners from recorded ones, in turn. No two
 * share a random value, a date or a drawn ClusterIP. Returns the files, in a new temporary folder.
 */
export async function makeClass(
  recorded: readonly string[],
  count: number,
): Promise<{ folder: string; files: string[] }> {
  const originals = await Promise.all(recorded.map((file) => readSubmission(file)))
  const folder = mkdtempSync(join(tmpdir(), 'class-'))
  const files: string[] = []
  for (let index = 1; index <= count; index++) {
    const original = originals[index % originals.length] as Submission
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
  const other = new OtherCluster(learner, EVERYTHING, -earlierMs)
  const own = [...captures].map(([id, { capture, takenAt }]) => ({
    id,
    takenAt: other.date(new Date(takenAt).toISOString()),
    capture: withOwnAddresses(other.rewrite(capture), key),
  }))
  const passed = steps.map((step) =>
    step.passedAt ? { ...step, passedAt: other.date(step.passedAt) } : step,
  )
  const described = {
    ...about,
    learner,
    seed: seedOf(learner),
    submittedAt: other.date(submittedAt),
    steps: passed,
  }
  return { file: `${learner}-lab${manifest.lab}.labgrade`, bytes: writeSubmission(described, own) }
}

function withOwnAddresses(capture: Capture, key: number): Capture {
  const drawn = drawnAddresses(JSON.stringify(capture.objects), key)
  return withTexts(capture, (text) =>
    text.replace(DRAWN, (address) => drawn.get(address) ?? address),
  )
}

/** Randomly assigned ClusterIPs, each with a replacement. */
function drawnAddresses(objects: string, key: number): Map<string, string> {
  const drawn = [...new Set(objects.match(DRAWN))].filter((address) => !GIVEN.includes(address))
  const thirds = drawn.map((address) => Number(address.split('.')[2]))
  const other =
    [...Array(255).keys()]
      .map((step) => 1 + ((key + step) % 255))
      .find((one) => !thirds.includes(one)) ?? 1
  const moved = (address: string) =>
    address.replace(/(?<=^\d+\.\d+\.)\d+/, (third) => String(Number(third) ^ other))
  return new Map(drawn.map((address) => [address, moved(address)]))
}
