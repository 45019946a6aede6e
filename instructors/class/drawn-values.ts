// Values that a cluster generates at random and no other cluster repeats: two submissions that share them have a common
// source.

import { hash } from 'node:crypto'
import type { Capture, NodeFiles } from '../../cluster/capture-folder.ts'
import { parseNodeBoot } from '../../dataplane/capture.ts'
import { birthMarks } from '../../grading/api-object.ts'

/** The name of each kind of value in reports. */
export const DRAWN_KINDS = {
  uid: 'UIDs',
  name: 'generated names',
  container: 'container IDs',
  boot: 'boot IDs',
  mac: 'MAC addresses',
  veth: 'veth names',
  initval: 'ipset initvals',
  flow: 'conntrack entries',
  ages: 'ages of objects',
  log: 'log timings',
} as const
export type DrawnKind = keyof typeof DRAWN_KINDS

/** Digests of the values of each kind. */
export type DrawnValues = ReadonlyMap<DrawnKind, ReadonlySet<string>>

/**
 * Among 1,000 learners two may share one 32-bit value by chance, but not two: this many shared values, of any kind, count.
 */
export const LEAST_SHARED = 2

const DIGEST_LENGTH = 12
/** A list of fewer objects, or of objects created in fewer different seconds, may repeat by chance. */
const AGED_OBJECTS = 20
const AGED_SECONDS = 4
/** How many log lines are compared by their fractions of a second, and how many of these must differ. */
const LOG_LINES = 10
const LOG_FRACTIONS = 4

/** Collects the values of captures; a file that several captures share is read once. */
export class DrawnValueReader {
  readonly #values = new Map<DrawnKind, Set<string>>()
  readonly #seen = new Set<string>()
  readonly #objects = new WeakSet<object>()

  get values(): DrawnValues {
    return this.#values
  }

  /** `key` identifies the content of a node's file, for example by its digest; without a key, each file is read. */
  addCapture({ objects, nodes }: Capture, key: (path: string) => string | undefined = () => undefined): void {
    const embedded = isEmbedded(objects.items)
    if (this.#isNew(key('objects.json'))) this.#addObjects(objects.items)
    for (const node of nodes) this.#addNode(node, embedded, (file) => key(`nodes/${node.name}/${file}`))
  }

  /**
   * The files of one node. A boot ID counts only for the embedded cluster, which has its own kernel: kind's nodes share that
   * of their machine.
   */
  #addNode({ files }: NodeFiles, embedded: boolean, key: (file: string) => string | undefined): void {
    for (const [file, text] of files) {
      if (file !== 'boot' && !this.#isNew(key(file))) continue
      if (file === 'ip-addr.json') this.#addLinks(text)
      else if (file === 'ipset-save') for (const [, value = ''] of text.matchAll(INITVAL)) this.#add('initval', value)
      else if (file === 'conntrack') this.#addFlows(text)
      else if (file === 'kube-proxy.log') this.#addLog(text)
      else if (file === 'boot' && embedded) this.#add('boot', parseNodeBoot(text)?.bootId ?? '')
    }
  }

  #addLinks(text: string): void {
    const macs = [...text.matchAll(LOCAL_MAC)].map(([, mac = '']) => mac)
    // An address of several interfaces was set, not generated.
    for (const mac of macs) if (macs.filter((other) => other === mac).length === 1) this.#add('mac', mac)
    for (const [, name = ''] of text.matchAll(VETH)) this.#add('veth', name)
  }

  /** Only connections whose source port was rewritten: both ports are random. */
  #addFlows(text: string): void {
    for (const line of text.split('\n')) {
      const words = [...line.matchAll(FLOW_WORD)].map(([, word = '']) => word)
      if (words.length === 8 && words[2] !== words[7]) this.#add('flow', words.join(' '))
    }
  }

  /** The fractions of a second of the first lines: they remain when all dates are shifted by whole seconds. */
  #addLog(text: string): void {
    const fractions = text
      .slice(0, 8000)
      .split('\n')
      .slice(0, LOG_LINES)
      .flatMap((line) => KLOG_FRACTION.exec(line)?.[1] ?? [])
    if (fractions.length === LOG_LINES && new Set(fractions).size >= LOG_FRACTIONS)
      this.#add('log', fractions.join(' '))
  }

  #addObjects(items: readonly unknown[]): void {
    const marks = birthMarks(items)
    const oldest = Math.min(...marks.map(({ createdAt }) => createdAt).filter((createdAt) => createdAt > 0))
    const seconds = marks.map(({ createdAt }) => Math.round((createdAt - oldest) / 1000))
    if (marks.length >= AGED_OBJECTS && new Set(seconds).size >= AGED_SECONDS)
      this.#add(
        'ages',
        marks
          .map(({ resourceVersion }, index) => `${seconds[index]}:${resourceVersion}`)
          .sort()
          .join(' '),
      )
    for (const item of items) {
      if (!isRecord(item) || this.#objects.has(item)) continue
      this.#objects.add(item)
      const name = textAt(item.metadata, 'name')
      this.#add('uid', textAt(item.metadata, 'uid'))
      if (name && textAt(item.metadata, 'generateName')) this.#add('name', `${textAt(item, 'kind')} ${name}`)
      const containers = isRecord(item.status) ? item.status.containerStatuses : undefined
      for (const container of Array.isArray(containers) ? containers : [])
        this.#add('container', textAt(container, 'containerID'))
    }
  }

  #add(kind: DrawnKind, value: string): void {
    if (value === '') return
    const known = this.#values.get(kind) ?? new Set()
    known.add(hash('sha256', `${kind} ${value}`).slice(0, DIGEST_LENGTH))
    this.#values.set(kind, known)
  }

  #isNew(key: string | undefined): boolean {
    if (key === undefined) return true
    if (this.#seen.has(key)) return false
    this.#seen.add(key)
    return true
  }
}

const INITVAL = /\binitval (0x[0-9a-f]{1,8})\b/g
/** Locally administered addresses, without Docker's 02:42:…, which it makes of the IP address (before Docker 28). */
const LOCAL_MAC = /"address":\s?"((?!02:42:)[0-9a-f][26ae](?::[0-9a-f]{2}){5})"/g
const VETH = /"ifname":\s?"(veth[0-9a-f]{8})"/g
const FLOW_WORD = /\b(?:src|dst|sport|dport)=(\S+)/g
const KLOG_FRACTION = /^[IWEF]\d{4} \d\d:\d\d:\d\d\.(\d{3,6}) /

/** Whether the captured cluster is an embedded one, whose kernel boots with it. */
export const isEmbedded = (items: readonly unknown[]): boolean =>
  items.some((item) => isRecord(item) && textAt(item.spec, 'providerID').startsWith('embedded://'))

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const textAt = (value: unknown, key: string): string => {
  const text = isRecord(value) ? value[key] : undefined
  return typeof text === 'string' ? text : ''
}
