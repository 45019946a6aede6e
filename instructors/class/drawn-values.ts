// Values that a cluster generates at random and no other cluster repeats: two submissions that share them have a common
// source.

import { hash } from 'node:crypto'
import type { Capture } from '../../cluster/capture-folder.ts'
import { parseNodeBoot } from '../../dataplane/node-boot.ts'
import { birthMarks, textAt, valueAt } from '../../grading/api-object.ts'

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

/** Values, each as `KIND DIGEST`. */
export type DrawnValues = ReadonlySet<string>

const DIGEST_LENGTH = 12
/** A list of fewer objects, or of objects created in fewer different seconds, may repeat by chance. */
const AGED_OBJECTS = 20
const AGED_SECONDS = 4
/** How many log lines are compared by their fractions of a second, and how many of these must differ. */
const LOG_LINES = 10
const LOG_FRACTIONS = 4

/** Locally administered addresses, without Docker's 02:42:…, which it makes of the IP address (before Docker 28). */
const LOCAL_MAC = /"address":\s?"((?!02:42:)[0-9a-f][26ae](?::[0-9a-f]{2}){5})"/g
const VETH = /"ifname":\s?"(veth[0-9a-f]{8})"/g
const INITVAL = /\binitval (0x[0-9a-f]{1,8})\b/g
const FLOW_WORD = /\b(?:src|dst|sport|dport)=(\S+)/g
const KLOG_FRACTION = /^[IWEF]\d{4} \d\d:\d\d:\d\d\.(\d{3,6}) /

type Find<Part> = (part: Part) => readonly string[]

/** Where each kind is found: in one object, or in a file of a node. */
const IN_OBJECTS: readonly [DrawnKind, Find<unknown>][] = [
  ['uid', (item) => [textAt(item, 'metadata', 'uid')]],
  ['name', generatedName],
  ['container', containerIds],
]
const IN_FILES: readonly [DrawnKind, file: string, Find<string>][] = [
  ['mac', 'ip-addr.json', macAddresses],
  ['veth', 'ip-addr.json', (text) => matches(text, VETH)],
  ['initval', 'ipset-save', (text) => matches(text, INITVAL)],
  ['flow', 'conntrack', rewrittenFlows],
  ['log', 'kube-proxy.log', logTimings],
  ['boot', 'boot', (text) => [parseNodeBoot(text)?.bootId ?? '']],
]

/** The values of captures; a text or an object that several of them share is read once. */
export function drawnValues(captures: Iterable<Capture>): DrawnValues {
  const values = new Set<string>()
  const seen = new Set<unknown>()
  const isNew = (part: unknown) => !seen.has(part) && seen.add(part)
  const add = (kind: DrawnKind, found: readonly string[]) => {
    for (const value of found)
      if (value !== '')
        values.add(`${kind} ${hash('sha256', `${kind} ${value}`).slice(0, DIGEST_LENGTH)}`)
  }
  for (const { objects, nodes } of captures) {
    const { items } = objects
    add('ages', agesOfObjects(items))
    for (const item of items.filter(isNew))
      for (const [kind, find] of IN_OBJECTS) add(kind, find(item))
    // A boot ID counts only for the embedded cluster, which has its own kernel: kind's nodes share that of their machine.
    const kinds = IN_FILES.filter(([kind]) => kind !== 'boot' || isEmbedded(items))
    for (const { files } of nodes)
      for (const [file, text] of files)
        if (isNew(text))
          for (const [kind, own, find] of kinds) if (own === file) add(kind, find(text))
  }
  return values
}

const matches = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([, value = '']) => value)

/** An address of several interfaces was set, not generated. */
function macAddresses(text: string): string[] {
  const macs = matches(text, LOCAL_MAC)
  return macs.filter((mac) => macs.indexOf(mac) === macs.lastIndexOf(mac))
}

/** Only connections whose source port was rewritten: both ports are random. */
function rewrittenFlows(text: string): string[] {
  const flows = text.split('\n').map((line) => matches(line, FLOW_WORD))
  return flows
    .filter((words) => words.length === 8 && words[2] !== words[7])
    .map((words) => words.join(' '))
}

/** The fractions of a second of the first lines: they remain when all dates are shifted by whole seconds. */
function logTimings(text: string): string[] {
  const lines = text.slice(0, 8000).split('\n').slice(0, LOG_LINES)
  const fractions = lines.flatMap((line) => KLOG_FRACTION.exec(line)?.[1] ?? [])
  return fractions.length === LOG_LINES && new Set(fractions).size >= LOG_FRACTIONS
    ? [fractions.join(' ')]
    : []
}

function agesOfObjects(items: readonly unknown[]): string[] {
  const marks = birthMarks(items)
  const oldest = Math.min(
    ...marks.map(({ createdAt }) => createdAt).filter((createdAt) => createdAt > 0),
  )
  const seconds = marks.map(({ createdAt }) => Math.round((createdAt - oldest) / 1000))
  if (marks.length < AGED_OBJECTS || new Set(seconds).size < AGED_SECONDS) return []
  return [
    marks
      .map(({ resourceVersion }, index) => `${seconds[index]}:${resourceVersion}`)
      .sort()
      .join(' '),
  ]
}

function generatedName(item: unknown): string[] {
  return textAt(item, 'metadata', 'generateName')
    ? [`${textAt(item, 'kind')} ${textAt(item, 'metadata', 'name')}`]
    : []
}

function containerIds(item: unknown): string[] {
  const containers = valueAt(item, 'status', 'containerStatuses')
  return Array.isArray(containers)
    ? containers.map((container) => textAt(container, 'containerID'))
    : []
}

/** Whether the captured cluster is an embedded one, whose kernel boots with it. */
export const isEmbedded = (items: readonly unknown[]): boolean =>
  items.some((item) => textAt(item, 'spec', 'providerID').startsWith('embedded://'))
