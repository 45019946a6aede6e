// Dates and values of one submission that can't all be true: a cluster's time only goes forward.

import type { NodeFiles } from '../../cluster/capture-folder.ts'
import { groupBy } from '../../dataplane/collections.ts'
import { type NodeBoot, parseNodeBoot } from '../../dataplane/node-boot.ts'
import { interfaceName } from '../../embedded/index.ts'
import {
  type BirthMark,
  birthMarks,
  clusterIdentity,
  textAt,
  valueAt,
} from '../../grading/api-object.ts'
import type { Submission, SubmittedCapture } from '../submission/read-submission.ts'
import { isEmbedded } from './drawn-values.ts'
import type { Flag } from './result.ts'

const SECOND = 1000
/**
 * Two programs may record a cluster at the same time, each for up to this long, so captures closer together have no order.
 */
const APART_MS = 30 * SECOND
/** Allowed difference between the clocks of a cluster's machines and the learner's. */
const SKEW_MS = 120 * SECOND
/** Local times are read as UTC: more than the offset of any time zone, with some hours for a wrong clock. */
const ZONE_MS = 26 * 3600 * SECOND
/** Allowed difference between the clocks of one machine and its cluster, and of different machines. */
const OWN_SKEW_MS = 10 * SECOND
const FUTURE_MS = 15 * 60 * SECOND
/** How long a kernel of the embedded cluster may run before its API server creates the first object. */
const START_MS = 3600 * SECOND

interface CaptureView {
  id: string
  takenAt: number
  items: readonly unknown[]
  marks: readonly BirthMark[]
  nodes: readonly NodeFiles[]
  boots: ReadonlyMap<string, NodeBoot>
  embedded: boolean
}

/** The first contradiction of each sort, one sentence each; `now` is in milliseconds since the epoch. */
export function historyFlags({ manifest, captures }: Submission, now: number): Flag[] {
  const views = [...captures].map(viewOf).sort((a, b) => a.takenAt - b.takenAt)
  const submittedAt = Date.parse(manifest.submittedAt)
  const dates = [
    dateOfSubmission(submittedAt, now),
    datesOfCaptures(views, submittedAt),
    datesOfObjects(views),
  ]
  const histories = [...groupBy(views, ({ marks }) => clusterIdentity(marks))].flatMap(
    ([identity, own]) => [
      ...(identity ? [objectsGrow(own), bootsAgree(own), linksStay(own)] : []),
      ...[datesOfNodes(own), startOfCluster(own), namesOfLinks(own), countersMakeSense(own)],
    ],
  )
  const flagsOf = (kind: Flag['kind'], found: readonly Contradiction[]) =>
    [...new Set(found)].flatMap((text) => (text === undefined ? [] : [{ kind, text }]))
  return [...flagsOf('clock', dates), ...flagsOf('history', histories)]
}

/** A sentence about what can't be true, if there is such. */
type Contradiction = string | undefined

function viewOf([id, { takenAt, capture }]: [string, SubmittedCapture]): CaptureView {
  const { items } = capture.objects
  const boots = capture.nodes.flatMap(({ name, files }): [string, NodeBoot][] => {
    const boot = parseNodeBoot(files.get('boot'))
    return boot ? [[name, boot]] : []
  })
  const embedded = isEmbedded(items)
  return {
    id,
    takenAt,
    items,
    marks: birthMarks(items),
    nodes: capture.nodes,
    boots: new Map(boots),
    embedded,
  }
}

function dateOfSubmission(submittedAt: number, now: number): Contradiction {
  if (submittedAt > now + FUTURE_MS)
    return `It is dated ${new Date(submittedAt).toISOString()}, which is in the future.`
}

function datesOfCaptures(views: readonly CaptureView[], submittedAt: number): Contradiction {
  for (const { id, takenAt } of views)
    if (takenAt > submittedAt + OWN_SKEW_MS)
      return `The capture "${id}" is dated after the submission itself.`
}

function datesOfObjects(views: readonly CaptureView[]): Contradiction {
  for (const { id, takenAt, marks } of views)
    if (marks.some(({ createdAt }) => createdAt > takenAt + OWN_SKEW_MS))
      return `The capture "${id}" is dated before objects in it were made.`
}

/** An object keeps its creation date, and its resourceVersion grows with each change. */
function objectsGrow(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; mark: BirthMark }>()
  for (const view of views)
    for (const mark of view.marks.filter(({ uid }) => uid !== '')) {
      const before = known.get(mark.uid)
      const what = `${mark.kind} "${mark.name}"`
      if (before && before.mark.createdAt !== mark.createdAt)
        return `${what} has two different creation dates in its captures "${before.view.id}" and "${view.id}".`
      if (before && view.takenAt - before.view.takenAt < APART_MS) continue
      if (before && mark.resourceVersion < before.mark.resourceVersion)
        return `The resourceVersion of ${what} is smaller in the capture "${view.id}" than in the earlier "${before.view.id}".`
      known.set(mark.uid, { view, mark })
    }
}

/** A kernel's uptime grows with the clock; the kernel of the embedded cluster lives as long as the cluster. */
function bootsAgree(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; boot: NodeBoot }>()
  for (const view of views)
    for (const [node, boot] of view.boots) {
      const before = known.get(node)
      const elapsedMs = view.takenAt - (before?.view.takenAt ?? 0)
      if (before?.boot.bootId !== boot.bootId || elapsedMs > APART_MS)
        known.set(node, { view, boot })
      if (!before) continue
      const between = `between its captures "${before.view.id}" and "${view.id}"`
      if (before.boot.bootId !== boot.bootId) {
        if (view.embedded) return `Its embedded cluster has another kernel ${between}.`
        continue
      }
      const grownMs = SECOND * (boot.uptimeSeconds - before.boot.uptimeSeconds)
      if (elapsedMs > APART_MS && grownMs < 0) return `The uptime of ${node} went back ${between}.`
      if (view.embedded && grownMs > elapsedMs + SKEW_MS)
        return `The uptime of ${node} grew by ${seconds(grownMs)} in ${seconds(elapsedMs)} ${between}.`
    }
}

const seconds = (milliseconds: number) => `${Math.round(milliseconds / SECOND)} s`

/** A file of every node; a text that several captures share, once. */
function* textsOf(views: readonly CaptureView[], file: string) {
  const read = new Set<string>()
  for (const view of views)
    for (const { name, files } of view.nodes) {
      const text = files.get(file) ?? ''
      if (!read.has(text)) yield { view, name, text }
      read.add(text)
    }
}

/** The name and the address of a veth are generated together, so another address under the same name is another interface. */
function linksStay(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; address: string }>()
  for (const { view, name, text } of textsOf(views, 'ip-addr.json'))
    for (const piece of text.split('"ifindex":')) {
      const [link, address] = [VETH.exec(piece)?.[1], MAC.exec(piece)?.[1]]
      if (!link || !address) continue
      const before = known.get(`${name} ${link}`)
      if (before && before.address !== address)
        return `The interface ${link} of ${name} has another MAC address in "${view.id}" than in "${before.view.id}".`
      known.set(`${name} ${link}`, { view, address })
    }
}

const VETH = /"ifname":\s?"(veth[0-9a-f]{8})"/
const MAC = /"address":\s?"([0-9a-f:]{17})"/

const podsOf = ({ items }: CaptureView) => items.filter((item) => textAt(item, 'kind') === 'Pod')

/**
 * Dates in files of nodes match the days of the capture and its objects. The clock of an embedded kernel stops while its
 * machine sleeps, so they may be older.
 */
function datesOfNodes(views: readonly CaptureView[]): Contradiction {
  for (const view of views)
    for (const { name, files } of view.nodes) {
      const { id, takenAt, embedded } = view
      const saved = Date.parse(
        `${SAVED_AT.exec(files.get('iptables-save')?.slice(0, 200) ?? '')?.[1]} UTC`,
      )
      if (saved > takenAt + ZONE_MS || (!embedded && saved < takenAt - ZONE_MS))
        return `The rules of ${name} in the capture "${id}" were saved on ${day(saved)}, but the capture is of ${day(takenAt)}.`
      const proxy = podsOf(view).find(
        (pod) =>
          textAt(pod, 'metadata', 'labels', 'k8s-app') === 'kube-proxy' &&
          textAt(pod, 'spec', 'nodeName') === name,
      )
      const createdAt = Date.parse(textAt(proxy, 'metadata', 'creationTimestamp'))
      const logged = loggedAt(files.get('kube-proxy.log') ?? '', takenAt)
      const allowedMs = ZONE_MS + DAY_MS / 2
      if (
        logged < createdAt - allowedMs ||
        (!Number.isNaN(createdAt) && logged > takenAt + allowedMs)
      )
        return `kube-proxy's log of ${name} begins on ${day(logged)}, but its Pod was made on ${day(createdAt)} and the capture "${id}" taken on ${day(takenAt)}.`
    }
}

/** The day on which a log begins; NaN if it does not say. A log has no year: the one closest to the capture is used. */
function loggedAt(log: string, takenAt: number): number {
  const [, month, date] = KLOG_DAY.exec(log) ?? []
  const year = new Date(takenAt).getUTCFullYear()
  const days = [year - 1, year, year + 1].map((candidate) =>
    Date.parse(`${candidate}-${month}-${date}T12:00:00Z`),
  )
  return days.sort((a, b) => Math.abs(a - takenAt) - Math.abs(b - takenAt))[0] ?? Number.NaN
}

const SAVED_AT = /^# Generated by \S+ v\S+(?: \([^)]*\))? on \w{3} (.{1,30})$/m
const KLOG_DAY = /^[IWEF](\d\d)(\d\d) /
const DAY_MS = 24 * 3600 * SECOND
const day = (date: number) => new Date(date).toISOString().slice(0, 10)

/** The objects of an embedded cluster are created after its kernel has booted. */
function startOfCluster(views: readonly CaptureView[]): Contradiction {
  for (const { id, boots, marks } of views.filter(({ embedded }) => embedded)) {
    const boot = Math.min(
      ...[...boots.values()].map(({ bootedAtSeconds }) => bootedAtSeconds ?? Number.NaN),
    )
    const bootedAt = SECOND * boot
    const firstAt = Math.min(
      ...marks.map(({ createdAt }) => createdAt).filter((createdAt) => createdAt > 0),
    )
    if (!Number.isFinite(bootedAt) || !Number.isFinite(firstAt)) continue
    if (firstAt <= bootedAt - SKEW_MS || firstAt >= bootedAt + START_MS)
      return `In the capture "${id}" the kernel started at ${iso(bootedAt)}, but the first object was made at ${iso(firstAt)}.`
  }
}

const iso = (date: number) => new Date(date).toISOString().slice(0, 19)

/** The embedded cluster names the interface of a Pod after its UID, as a CNI plugin would after its container. */
function namesOfLinks(views: readonly CaptureView[]): Contradiction {
  for (const view of views.filter(({ embedded }) => embedded)) {
    const linked = podsOf(view).filter(
      (pod) =>
        valueAt(pod, 'spec', 'hostNetwork') !== true &&
        textAt(pod, 'metadata', 'deletionTimestamp') === '' &&
        textAt(pod, 'status', 'phase') === 'Running' &&
        textAt(pod, 'status', 'podIP') !== '',
    )
    const isNamed = (pod: unknown) => {
      const node = view.nodes.find(({ name }) => name === textAt(pod, 'spec', 'nodeName'))
      return node?.files
        .get('ip-addr.json')
        ?.includes(`"${interfaceName('veth', textAt(pod, 'metadata', 'uid'))}"`)
    }
    if (linked.length >= 2 && !linked.some(isNamed))
      return `No interface in the capture "${view.id}" has the name that goes with the UID of any of its ${linked.length} Pods.`
  }
}

/** A counted packet has at least the 20 bytes of an IPv4 header. */
function countersMakeSense(views: readonly CaptureView[]): Contradiction {
  for (const { view, name, text } of textsOf(views, 'iptables-save'))
    for (const [counter, packets, bytes] of text.matchAll(COUNTER)) {
      const [least, most] = [20 * Number(packets), 2 ** 20 * Number(packets)]
      if (Number(bytes) < least || Number(bytes) > most)
        return `A rule of ${name} in the capture "${view.id}" counts ${counter.trim()}: no ${packets} packets have ${bytes} bytes.`
    }
}

const COUNTER = /\[(\d{1,15}):(\d{1,15})\](?= -A |$)/gm
