// Contradictions between captures of one cluster, whose time only goes forward.

import type { NodeFiles } from '../../cluster/capture-folder.ts'
import { type NodeBoot, parseNodeBoot } from '../../dataplane/node-boot.ts'
import { interfaceName } from '../../embedded/index.ts'
import { type BirthMark, birthMarks, clusterIdentity } from '../../grading/cluster-identity.ts'
import type { Submission } from '../submission/read-submission.ts'
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
/** How long a kernel of the embedded cluster may run before its API server creates the first object. */
const START_MS = 3600 * SECOND
/** The kernel rounds its boot time. */
const BOOT_DATE_SECONDS = 3

interface CaptureView {
  id: string
  takenAt: number
  items: readonly unknown[]
  marks: readonly BirthMark[]
  nodes: readonly NodeFiles[]
  boots: ReadonlyMap<string, NodeBoot>
  embedded: boolean
  /** The digest of a node's file, to recognise identical ones. */
  digest(node: string, file: string): string | undefined
}

/** The first contradiction of each kind among the captures that were read, one sentence each. */
export function historyFlags({ captures }: Submission): Flag[] {
  const views = [...captures]
    .filter(([, submitted]) => submitted.wasRead)
    .map(([id, { takenAt, capture, digests }]): CaptureView => {
      const { items } = capture.objects
      const boots = capture.nodes.flatMap(({ name, files }): [string, NodeBoot][] => {
        const boot = parseNodeBoot(files.get('boot'))
        return boot ? [[name, boot]] : []
      })
      return {
        ...{ id, takenAt, items, marks: birthMarks(items), nodes: capture.nodes, boots: new Map(boots) },
        embedded: isEmbedded(items),
        digest: (node, file) => digests.get(`nodes/${node}/${file}`),
      }
    })
    .sort((a, b) => a.takenAt - b.takenAt)
  const clusters = new Map<string, CaptureView[]>()
  for (const view of views) {
    const identity = clusterIdentity(view.marks)
    clusters.set(identity, [...(clusters.get(identity) ?? []), view])
  }
  const found = [...clusters].flatMap(([identity, own]) => [
    ...(identity ? [objectsGrow(own), laterIsNewer(own), bootsAgree(own), linksStay(own)] : []),
    firstOf(own, datesOfPods),
    firstOf(own, datesOfNodes),
    firstOf(own, startOfCluster),
    firstOf(own, namesOfLinks),
    countersMakeSense(own),
  ])
  const texts = new Set(found.flatMap((text) => text ?? []))
  return [...texts].map((text) => ({ kind: 'history', text }))
}

type Contradiction = string | undefined

function firstOf(views: readonly CaptureView[], view: (one: CaptureView) => Contradiction): Contradiction {
  for (const one of views) {
    const text = view(one)
    if (text) return text
  }
  return undefined
}

/** An object keeps its creation date, and its resourceVersion grows with each change. */
function objectsGrow(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; mark: BirthMark; item: unknown }>()
  for (const view of views)
    for (const [index, mark] of view.marks.entries()) {
      if (!mark.uid) continue
      const before = known.get(mark.uid)
      const item = view.items[index]
      if (!before || before.item === item) {
        known.set(mark.uid, { view, mark, item })
        continue
      }
      const what = `${mark.kind} "${mark.name}"`
      if (before.mark.createdAt !== mark.createdAt)
        return `${what} has two different creation dates in its captures "${before.view.id}" and "${view.id}".`
      if (view.takenAt - before.view.takenAt < APART_MS) continue
      if (mark.resourceVersion < before.mark.resourceVersion)
        return `The resourceVersion of ${what} is smaller in the capture "${view.id}" than in the earlier "${before.view.id}".`
      known.set(mark.uid, { view, mark, item })
    }
  return undefined
}

/** An object created after a capture has a larger resourceVersion than anything in that capture. */
function laterIsNewer(views: readonly CaptureView[]): Contradiction {
  for (const [index, view] of views.entries()) {
    const highest = Math.max(0, ...view.marks.map(({ resourceVersion }) => resourceVersion))
    for (const later of views.slice(index + 1))
      for (const { kind, name, createdAt, resourceVersion } of later.marks)
        if (createdAt > view.takenAt + SKEW_MS && resourceVersion > 0 && resourceVersion < highest)
          return `${kind} "${name}" is dated after the capture "${view.id}", but its resourceVersion is older than that.`
  }
  return undefined
}

/** A kernel's uptime grows with the clock; the kernel of the embedded cluster lives as long as the cluster. */
function bootsAgree(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; boot: NodeBoot }>()
  for (const view of views) {
    const ids = new Set([...view.boots.values()].map(({ bootId }) => bootId))
    if (view.embedded && ids.size > 1)
      return `The nodes of the capture "${view.id}" name ${ids.size} boot IDs, but an embedded cluster has one kernel.`
    for (const [node, boot] of view.boots) {
      const before = known.get(node)
      const elapsedMs = view.takenAt - (before?.view.takenAt ?? 0)
      if (before?.boot.bootId !== boot.bootId || elapsedMs > APART_MS) known.set(node, { view, boot })
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
      const moved = Math.abs((boot.bootedAtSeconds ?? 0) - (before.boot.bootedAtSeconds ?? 0))
      if (view.embedded && moved > BOOT_DATE_SECONDS) return `The date of ${node}'s start changed ${between}.`
    }
  }
  return undefined
}

const seconds = (milliseconds: number) => `${Math.round(milliseconds / SECOND)} s`

/** The name and the address of a veth are generated together, so another address under the same name is another interface. */
function linksStay(views: readonly CaptureView[]): Contradiction {
  const known = new Map<string, { view: CaptureView; address: string }>()
  const read = new Set<string>()
  for (const view of views)
    for (const { name, files } of view.nodes) {
      const digest = `${name} ${view.digest(name, 'ip-addr.json')}`
      if (read.has(digest)) continue
      read.add(digest)
      for (const piece of (files.get('ip-addr.json') ?? '').split('"ifindex":')) {
        const [link, address] = [VETH.exec(piece)?.[1], MAC.exec(piece)?.[1]]
        if (!link || !address) continue
        const before = known.get(`${name} ${link}`)
        if (before && before.address !== address)
          return `The interface ${link} of ${name} has another MAC address in "${view.id}" than in "${before.view.id}".`
        known.set(`${name} ${link}`, { view, address })
      }
    }
  return undefined
}

const VETH = /"ifname":\s?"(veth[0-9a-f]{8})"/
const MAC = /"address":\s?"([0-9a-f:]{17})"/

interface PodTimes {
  kind?: unknown
  metadata?: {
    name?: unknown
    uid?: unknown
    creationTimestamp?: unknown
    deletionTimestamp?: unknown
    labels?: Record<string, unknown>
  }
  spec?: { nodeName?: unknown; hostNetwork?: unknown }
  status?: { phase?: unknown; podIP?: unknown; startTime?: unknown; containerStatuses?: unknown }
}

const podsOf = ({ items }: CaptureView): PodTimes[] =>
  (items as readonly (PodTimes | null)[]).flatMap((item) => (item?.kind === 'Pod' ? [item] : []))
const dateOf = (value: unknown) => (typeof value === 'string' ? Date.parse(value) : Number.NaN)

/** A Pod and its containers start after its creation and before the capture. */
function datesOfPods(view: CaptureView): Contradiction {
  for (const { metadata, status } of podsOf(view)) {
    const createdAt = dateOf(metadata?.creationTimestamp)
    const containers = Array.isArray(status?.containerStatuses) ? status.containerStatuses : []
    const dates = [status?.startTime, ...containers.map((container) => container?.state?.running?.startedAt)].map(
      dateOf,
    )
    if (dates.some((date) => date < createdAt - SKEW_MS))
      return `Pod "${metadata?.name}" started before its creation according to its capture "${view.id}".`
    if (dates.some((date) => date > view.takenAt + SKEW_MS))
      return `Pod "${metadata?.name}" started after its capture "${view.id}" was taken.`
  }
  return undefined
}

/**
 * Dates in files of nodes match the days of the capture and its objects. The clock of an embedded kernel stops while its
 * machine sleeps, so they may be older.
 */
function datesOfNodes(view: CaptureView): Contradiction {
  for (const { name, files } of view.nodes) {
    const saved = dateOf(`${SAVED_AT.exec(files.get('iptables-save')?.slice(0, 200) ?? '')?.[1]} UTC`)
    if (saved > view.takenAt + ZONE_MS || (!view.embedded && saved < view.takenAt - ZONE_MS))
      return `The rules of ${name} in the capture "${view.id}" were saved on ${day(saved)}, but the capture is of ${day(view.takenAt)}.`
    const [, month, date] = KLOG_DAY.exec(files.get('kube-proxy.log') ?? '') ?? []
    const pod = podsOf(view).find(
      ({ metadata, spec }) => metadata?.labels?.['k8s-app'] === 'kube-proxy' && spec?.nodeName === name,
    )
    const createdAt = dateOf(pod?.metadata?.creationTimestamp)
    if (month === undefined || Number.isNaN(createdAt)) continue
    // A log has no year: use the one closest to the capture.
    const year = new Date(view.takenAt).getUTCFullYear()
    const logged = [year - 1, year, year + 1]
      .map((candidate) => Date.parse(`${candidate}-${month}-${date}T12:00:00Z`))
      .sort((a, b) => Math.abs(a - view.takenAt) - Math.abs(b - view.takenAt))[0]
    if (
      logged !== undefined &&
      (logged < createdAt - ZONE_MS - DAY_MS / 2 || logged > view.takenAt + ZONE_MS + DAY_MS / 2)
    )
      return `kube-proxy's log of ${name} begins on ${day(logged)}, but its Pod was made on ${day(createdAt)} and the capture "${view.id}" taken on ${day(view.takenAt)}.`
  }
  return undefined
}

const SAVED_AT = /^# Generated by \S+ v\S+(?: \([^)]*\))? on \w{3} (.{1,30})$/m
const KLOG_DAY = /^[IWEF](\d\d)(\d\d) /
const DAY_MS = 24 * 3600 * SECOND
const day = (date: number) => new Date(date).toISOString().slice(0, 10)

/** The objects of an embedded cluster are created after its kernel has booted. */
function startOfCluster({ id, embedded, boots, marks }: CaptureView): Contradiction {
  const bootedAt = SECOND * Math.min(...[...boots.values()].map(({ bootedAtSeconds }) => bootedAtSeconds ?? Number.NaN))
  const firstAt = Math.min(...marks.map(({ createdAt }) => createdAt).filter((createdAt) => createdAt > 0))
  if (!embedded || !Number.isFinite(bootedAt) || !Number.isFinite(firstAt)) return undefined
  if (firstAt > bootedAt - SKEW_MS && firstAt < bootedAt + START_MS) return undefined
  return `In the capture "${id}" the kernel started at ${iso(bootedAt)}, but the first object was made at ${iso(firstAt)}.`
}

const iso = (date: number) => new Date(date).toISOString().slice(0, 19)

/** The embedded cluster names the interface of a Pod after its UID, as a CNI plugin would after its container. */
function namesOfLinks(view: CaptureView): Contradiction {
  if (!view.embedded) return undefined
  const linked = podsOf(view).filter(
    ({ metadata, spec, status }) =>
      !metadata?.deletionTimestamp && !spec?.hostNetwork && status?.phase === 'Running' && status.podIP !== undefined,
  )
  const named = linked.filter(({ metadata, spec }) => {
    const links = view.nodes.find(({ name }) => name === spec?.nodeName)?.files.get('ip-addr.json') ?? ''
    return links.includes(`"${interfaceName('veth', String(metadata?.uid))}"`)
  })
  if (linked.length < 2 || named.length > 0) return undefined
  return `No interface in the capture "${view.id}" has the name that goes with the UID of any of its ${linked.length} Pods.`
}

/** A counted packet has at least the 20 bytes of an IPv4 header. */
function countersMakeSense(views: readonly CaptureView[]): Contradiction {
  const read = new Set<string>()
  for (const view of views)
    for (const { name, files } of view.nodes) {
      const digest = view.digest(name, 'iptables-save') ?? ''
      if (read.has(digest)) continue
      read.add(digest)
      for (const [counter, packets, bytes] of (files.get('iptables-save') ?? '').matchAll(COUNTER)) {
        const [least, most] = [20 * Number(packets), 2 ** 20 * Number(packets)]
        if (Number(bytes) < least || Number(bytes) > most)
          return `A rule of ${name} in the capture "${view.id}" counts ${counter.trim()}: no ${packets} packets have ${bytes} bytes.`
      }
    }
  return undefined
}

const COUNTER = /\[(\d{1,15}):(\d{1,15})\](?= -A |$)/gm
