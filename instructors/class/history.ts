// Contradictions between captures of one cluster: its time only goes forward.

import type { NodeFiles } from '../../cluster/capture-folder.ts'
import { type NodeBoot, parseNodeBoot } from '../../dataplane/node-boot.ts'
import { interfaceName } from '../../embedded/index.ts'
import { type BirthMark, birthMarks, clusterIdentity } from '../../grading/cluster-identity.ts'
import type { Submission } from '../submission/read-submission.ts'
import { isEmbedded } from './drawn-values.ts'
import type { Flag } from './result.ts'

const SECOND = 1000
/** Two programs may record a cluster at the same time, each for up to this long: captures closer together have no order. */
const APART_MS = 30 * SECOND
/** Allowed difference between the clocks of a cluster's machines and the learner's. */
const SKEW_MS = 120 * SECOND
/** Local times are read as UTC: no zone is farther away, and some hours are left for a bad clock. */
const ZONE_MS = 26 * 3600 * SECOND
/** How long a kernel of the embedded cluster may run before its API server makes the first object. */
const START_MS = 3600 * SECOND
/** The kernel rounds the date of its own start. */
const BOOT_DATE_SECONDS = 3

interface Look {
  id: string
  takenAt: number
  items: readonly unknown[]
  marks: readonly BirthMark[]
  nodes: readonly NodeFiles[]
  boots: ReadonlyMap<string, NodeBoot>
  embedded: boolean
  /** Of the node's file, to tell equal ones. */
  digest(node: string, file: string): string | undefined
}

/** The first contradiction of each sort among the captures that were read, in one sentence each. */
export function historyFlags({ captures }: Submission): Flag[] {
  const looks = [...captures]
    .filter(([, submitted]) => submitted.wasRead)
    .map(([id, { takenAt, capture, digests }]): Look => {
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
  const clusters = new Map<string, Look[]>()
  for (const look of looks) {
    const identity = clusterIdentity(look.marks)
    clusters.set(identity, [...(clusters.get(identity) ?? []), look])
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

function firstOf(looks: readonly Look[], look: (one: Look) => Contradiction): Contradiction {
  for (const one of looks) {
    const text = look(one)
    if (text) return text
  }
  return undefined
}

/** An object keeps the date it was made at, and its resourceVersion grows with each change. */
function objectsGrow(looks: readonly Look[]): Contradiction {
  const known = new Map<string, { look: Look; mark: BirthMark; item: unknown }>()
  for (const look of looks)
    for (const [index, mark] of look.marks.entries()) {
      if (!mark.uid) continue
      const before = known.get(mark.uid)
      const item = look.items[index]
      if (!before || before.item === item) {
        known.set(mark.uid, { look, mark, item })
        continue
      }
      const what = `${mark.kind} "${mark.name}"`
      if (before.mark.createdAt !== mark.createdAt)
        return `${what} was made at two different times, say its captures "${before.look.id}" and "${look.id}".`
      if (look.takenAt - before.look.takenAt < APART_MS) continue
      if (mark.resourceVersion < before.mark.resourceVersion)
        return `The resourceVersion of ${what} is smaller in the capture "${look.id}" than in the earlier "${before.look.id}".`
      known.set(mark.uid, { look, mark, item })
    }
  return undefined
}

/** What was made after a capture has a larger resourceVersion than anything in that capture. */
function laterIsNewer(looks: readonly Look[]): Contradiction {
  for (const [index, look] of looks.entries()) {
    const highest = Math.max(0, ...look.marks.map(({ resourceVersion }) => resourceVersion))
    for (const later of looks.slice(index + 1))
      for (const { kind, name, createdAt, resourceVersion } of later.marks)
        if (createdAt > look.takenAt + SKEW_MS && resourceVersion > 0 && resourceVersion < highest)
          return `${kind} "${name}" is dated after the capture "${look.id}", but its resourceVersion is older than that.`
  }
  return undefined
}

/** A kernel's uptime grows with the clock; the kernel of the embedded cluster lives as long as the cluster. */
function bootsAgree(looks: readonly Look[]): Contradiction {
  const known = new Map<string, { look: Look; boot: NodeBoot }>()
  for (const look of looks) {
    const ids = new Set([...look.boots.values()].map(({ bootId }) => bootId))
    if (look.embedded && ids.size > 1)
      return `The nodes of the capture "${look.id}" name ${ids.size} boot IDs, but an embedded cluster has one kernel.`
    for (const [node, boot] of look.boots) {
      const before = known.get(node)
      const elapsedMs = look.takenAt - (before?.look.takenAt ?? 0)
      if (before?.boot.bootId !== boot.bootId || elapsedMs > APART_MS) known.set(node, { look, boot })
      if (!before) continue
      const between = `between its captures "${before.look.id}" and "${look.id}"`
      if (before.boot.bootId !== boot.bootId) {
        if (look.embedded) return `The kernel of its embedded cluster became another one ${between}.`
        continue
      }
      const grownMs = SECOND * (boot.uptimeSeconds - before.boot.uptimeSeconds)
      if (elapsedMs > APART_MS && grownMs < 0) return `The uptime of ${node} went back ${between}.`
      if (look.embedded && grownMs > elapsedMs + SKEW_MS)
        return `The uptime of ${node} grew by ${seconds(grownMs)} in ${seconds(elapsedMs)} ${between}.`
      const moved = Math.abs((boot.bootedAtSeconds ?? 0) - (before.boot.bootedAtSeconds ?? 0))
      if (look.embedded && moved > BOOT_DATE_SECONDS) return `The date of ${node}'s start changed ${between}.`
    }
  }
  return undefined
}

const seconds = (milliseconds: number) => `${Math.round(milliseconds / SECOND)} s`

/** The name of a veth was drawn with it, so a second address under one name is another interface. */
function linksStay(looks: readonly Look[]): Contradiction {
  const known = new Map<string, { look: Look; address: string }>()
  const read = new Set<string>()
  for (const look of looks)
    for (const { name, files } of look.nodes) {
      const digest = `${name} ${look.digest(name, 'ip-addr.json')}`
      if (read.has(digest)) continue
      read.add(digest)
      for (const piece of (files.get('ip-addr.json') ?? '').split('"ifindex":')) {
        const [link, address] = [VETH.exec(piece)?.[1], MAC.exec(piece)?.[1]]
        if (!link || !address) continue
        const before = known.get(`${name} ${link}`)
        if (before && before.address !== address)
          return `The interface ${link} of ${name} has another MAC address in "${look.id}" than in "${before.look.id}".`
        known.set(`${name} ${link}`, { look, address })
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

const podsOf = ({ items }: Look): PodTimes[] =>
  (items as readonly (PodTimes | null)[]).flatMap((item) => (item?.kind === 'Pod' ? [item] : []))
const dateOf = (value: unknown) => (typeof value === 'string' ? Date.parse(value) : Number.NaN)

/** A Pod starts after it was made and before it is looked at, and so do its containers. */
function datesOfPods(look: Look): Contradiction {
  for (const { metadata, status } of podsOf(look)) {
    const createdAt = dateOf(metadata?.creationTimestamp)
    const containers = Array.isArray(status?.containerStatuses) ? status.containerStatuses : []
    const dates = [status?.startTime, ...containers.map((container) => container?.state?.running?.startedAt)].map(
      dateOf,
    )
    if (dates.some((date) => date < createdAt - SKEW_MS))
      return `Pod "${metadata?.name}" started before it was made, says its capture "${look.id}".`
    if (dates.some((date) => date > look.takenAt + SKEW_MS))
      return `Pod "${metadata?.name}" started after its capture "${look.id}" was taken.`
  }
  return undefined
}

/**
 * What nodes wrote is of the days that the capture and the objects are dated to. The clock of an embedded kernel stops while its
 * machine sleeps, so what it wrote may be older.
 */
function datesOfNodes(look: Look): Contradiction {
  for (const { name, files } of look.nodes) {
    const saved = dateOf(`${SAVED_AT.exec(files.get('iptables-save')?.slice(0, 200) ?? '')?.[1]} UTC`)
    if (saved > look.takenAt + ZONE_MS || (!look.embedded && saved < look.takenAt - ZONE_MS))
      return `The rules of ${name} in the capture "${look.id}" were saved on ${day(saved)}, but the capture is of ${day(look.takenAt)}.`
    const [, month, date] = KLOG_DAY.exec(files.get('kube-proxy.log') ?? '') ?? []
    const pod = podsOf(look).find(
      ({ metadata, spec }) => metadata?.labels?.['k8s-app'] === 'kube-proxy' && spec?.nodeName === name,
    )
    const createdAt = dateOf(pod?.metadata?.creationTimestamp)
    if (month === undefined || Number.isNaN(createdAt)) continue
    // A log has no year: the one that brings it closest to the capture.
    const year = new Date(look.takenAt).getUTCFullYear()
    const logged = [year - 1, year, year + 1]
      .map((candidate) => Date.parse(`${candidate}-${month}-${date}T12:00:00Z`))
      .sort((a, b) => Math.abs(a - look.takenAt) - Math.abs(b - look.takenAt))[0]
    if (
      logged !== undefined &&
      (logged < createdAt - ZONE_MS - DAY_MS / 2 || logged > look.takenAt + ZONE_MS + DAY_MS / 2)
    )
      return `kube-proxy's log of ${name} begins on ${day(logged)}, but its Pod was made on ${day(createdAt)} and the capture "${look.id}" taken on ${day(look.takenAt)}.`
  }
  return undefined
}

const SAVED_AT = /^# Generated by \S+ v\S+(?: \([^)]*\))? on \w{3} (.{1,30})$/m
const KLOG_DAY = /^[IWEF](\d\d)(\d\d) /
const DAY_MS = 24 * 3600 * SECOND
const day = (date: number) => new Date(date).toISOString().slice(0, 10)

/** The objects of an embedded cluster are made when its kernel has booted. */
function startOfCluster({ id, embedded, boots, marks }: Look): Contradiction {
  const bootedAt = SECOND * Math.min(...[...boots.values()].map(({ bootedAtSeconds }) => bootedAtSeconds ?? Number.NaN))
  const firstAt = Math.min(...marks.map(({ createdAt }) => createdAt).filter((createdAt) => createdAt > 0))
  if (!embedded || !Number.isFinite(bootedAt) || !Number.isFinite(firstAt)) return undefined
  if (firstAt > bootedAt - SKEW_MS && firstAt < bootedAt + START_MS) return undefined
  return `In the capture "${id}" the kernel started at ${iso(bootedAt)}, but the first object was made at ${iso(firstAt)}.`
}

const iso = (date: number) => new Date(date).toISOString().slice(0, 19)

/** The embedded cluster names the interface of a Pod after its UID, as a CNI plugin would after its container. */
function namesOfLinks(look: Look): Contradiction {
  if (!look.embedded) return undefined
  const linked = podsOf(look).filter(
    ({ metadata, spec, status }) =>
      !metadata?.deletionTimestamp && !spec?.hostNetwork && status?.phase === 'Running' && status.podIP !== undefined,
  )
  const named = linked.filter(({ metadata, spec }) => {
    const links = look.nodes.find(({ name }) => name === spec?.nodeName)?.files.get('ip-addr.json') ?? ''
    return links.includes(`"${interfaceName('veth', String(metadata?.uid))}"`)
  })
  if (linked.length < 2 || named.length > 0) return undefined
  return `No interface in the capture "${look.id}" has the name that goes with the UID of any of its ${linked.length} Pods.`
}

/** A counted packet has 20 bytes of IPv4 header at least, and none is without bytes. */
function countersMakeSense(looks: readonly Look[]): Contradiction {
  const read = new Set<string>()
  for (const look of looks)
    for (const { name, files } of look.nodes) {
      const digest = look.digest(name, 'iptables-save') ?? ''
      if (read.has(digest)) continue
      read.add(digest)
      for (const [counter, packets, bytes] of (files.get('iptables-save') ?? '').matchAll(COUNTER)) {
        const [least, most] = [20 * Number(packets), 2 ** 20 * Number(packets)]
        if (Number(bytes) < least || Number(bytes) > most)
          return `A rule of ${name} in the capture "${look.id}" counts ${counter.trim()}: no ${packets} packets have ${bytes} bytes.`
      }
    }
  return undefined
}

const COUNTER = /\[(\d{1,15}):(\d{1,15})\](?= -A |$)/gm
