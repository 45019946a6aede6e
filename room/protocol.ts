// What a learner's machine and the room send each other, and the room and the instructor's page.
// Everything from a learner is checked against these schemas before it is used; a learner's machine
// checks the room's messages in the same way.
//
// A learner sends facts. A fact has a key (`step 2 flush`) and a stamp that grows; of two facts
// with one key the one with the larger stamp counts, so facts may arrive twice, late or in any
// order.

import * as z from 'zod'
import type { PacketPath } from '../dataplane/view/packet-path.ts'
import { type Verdict, verdictSchema } from '../grading/report-schema.ts'

const VERSION = 1
const id = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9-]{0,59}$/)
const lab = z.number().int().min(1).max(99)
/** Milliseconds since 1970. */
const time = z.number().int().min(0).max(9e15)
const line = z.string().max(600)

const findingShownSchema = z.strictObject({
  node: z.string().max(100).optional(),
  command: line,
  expected: line,
  found: line,
  differences: z.array(z.string().max(300)).max(8),
})
/** A failing step as its learner sees it. */
export type FindingShown = z.infer<typeof findingShownSchema>

export const learnerFactSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('name'), name: z.string().trim().min(1).max(40) }),
  /** The step that the guide shows, since when. */
  z.strictObject({ kind: z.literal('place'), lab, step: id, since: time }),
  z.strictObject({
    kind: z.literal('step'),
    lab,
    step: id,
    verdict: verdictSchema,
    points: z.number().int().min(0).max(100),
    hints: z.number().int().min(0).max(20),
    unanswered: z.enum(['prediction', 'answer']).optional(),
    finding: findingShownSchema.optional(),
  }),
  z.strictObject({
    kind: z.literal('answer'),
    lab,
    step: id,
    what: z.enum(['prediction', 'answer']),
    text: z.string().max(500),
  }),
  z.strictObject({ kind: z.literal('hand'), raised: z.boolean() }),
  z.strictObject({ kind: z.literal('vote'), poll: id, text: z.string().trim().min(1).max(200) }),
  /** The answer to a task of the room, and what the nodes held. */
  z.strictObject({
    kind: z.literal('task'),
    task: id,
    /** The lab in whose notes it is. */
    lab,
    text: z.string().max(200),
    right: z.boolean(),
    found: z.string().max(300),
  }),
  z.strictObject({ kind: z.literal('left'), left: z.boolean() }),
])
export type LearnerFact = z.infer<typeof learnerFactSchema>
export type StepFact = Extract<LearnerFact, { kind: 'step' }>

/** A fact as it is sent: `at` is the time of the learner's clock. */
export const sentFactSchema = z.strictObject({ stamp: time, at: time, fact: learnerFactSchema })
export type SentFact = z.infer<typeof sentFactSchema>

/** The key of a fact: of two facts with the same key only one counts. */
export function keyOfFact(fact: LearnerFact): string {
  switch (fact.kind) {
    case 'step':
      return `step ${fact.lab} ${fact.step}`
    case 'answer':
      return `answer ${fact.lab} ${fact.step} ${fact.what}`
    case 'vote':
      return `vote ${fact.poll}`
    case 'task':
      return `task ${fact.task}`
    default:
      return fact.kind
  }
}

const hookSchema = z.enum(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'])
const placeSchema = z.enum([...hookSchema.options, 'in', 'routing', 'process', 'out'])
const short = z.string().max(120)
/** What the drawing of a packet's path needs. */
const shownPathSchema = z.strictObject({
  packet: short,
  node: short,
  mode: z.string().max(40),
  real: z.literal(true),
  legs: z.array(z.tuple([placeSchema, placeSchema])).max(16),
  local: z.enum(['process', 'IPVS']),
  hooks: z
    .array(
      z.strictObject({
        hook: hookSchema,
        actions: z
          .array(
            z.strictObject({
              table: z.string().max(60),
              chains: z.array(short).max(12),
              text: z.string().max(300),
              probability: z.number().min(0).max(1),
              entries: z.array(z.never()).max(0),
            }),
          )
          .max(24),
      }),
    )
    .max(8),
  ends: z
    .array(
      z.strictObject({
        to: short.optional(),
        verdict: z.enum(['dnat', 'accept', 'reject', 'drop']),
        probability: z.number().min(0).max(1),
        masquerade: z.boolean(),
        by: z.string().max(300).optional(),
      }),
    )
    .max(40),
  conntrack: z.string().max(400).optional(),
  stop: z
    .strictObject({
      hook: hookSchema,
      table: z.string().max(60),
      chain: short,
      rule: z.string().max(400),
      words: z.string().max(400),
    })
    .optional(),
})
export type ShownPath = z.infer<typeof shownPathSchema>

/**
 * The first message of a connection. `learner` is known to this learner's checkout and the room
 * only.
 */
const helloSchema = z.strictObject({
  version: z.literal(VERSION),
  learner: z.string().regex(/^[0-9a-f]{32}$/),
  now: time,
})
export type Hello = z.infer<typeof helloSchema>

/** The number of facts in one message; a message has at most `MESSAGE_BYTES`. */
export const MOST_FACTS = 40
export const MESSAGE_BYTES = 64 * 1024

export const learnerMessageSchema = z.union([
  z.strictObject({ hello: helloSchema }),
  z.strictObject({ facts: z.array(sentFactSchema).min(1).max(MOST_FACTS) }),
  /**
   * The path of a packet to the lab's Service, or why there is none; only when the room has asked
   * for it.
   */
  z.strictObject({ path: shownPathSchema.or(z.strictObject({ trouble: z.string().max(300) })) }),
])
export type LearnerMessage = z.infer<typeof learnerMessageSchema>

export const helloOf = (learner: string, now: number): LearnerMessage => ({
  hello: { version: VERSION, learner, now },
})

const notice = { id, at: time }
/** What the instructor tells or asks everybody. */
export const roomNoticeSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('text'),
    ...notice,
    text: z.string().max(300),
    /** The step to go to. */
    to: z.strictObject({ lab, step: id, number: z.number().int().min(1).max(99) }).optional(),
  }),
  z.strictObject({
    kind: z.literal('poll'),
    ...notice,
    ask: z.string().max(500),
    /** The possible answers; empty if any text can be one. */
    choices: z.array(z.string().max(200)).max(12),
  }),
  z.strictObject({
    kind: z.literal('timer'),
    ...notice,
    label: z.string().max(100),
    /** From now, as the clocks of the machines differ. */
    leftMs: z
      .number()
      .int()
      .min(0)
      .max(24 * 3600_000),
  }),
])
export type RoomNotice = z.infer<typeof roomNoticeSchema>

/** A task for one learner: `nonce` must be in the lab's notes of later captures. */
export const roomTaskSchema = z.strictObject({
  id,
  nonce: z.string().regex(/^[0-9a-f]{16}$/),
  task: z.enum(['mark-masq-packets', 'nat-rules', 'filter-rules']),
  /** Which of the workers, from 0. */
  worker: z.number().int().min(0).max(99),
})
export type RoomTask = z.infer<typeof roomTaskSchema>

export const roomMessageSchema = z.strictObject({
  welcome: z.strictObject({ room: z.string().max(80) }).optional(),
  notices: z.array(roomNoticeSchema).max(20).optional(),
  tasks: z.array(roomTaskSchema).max(20).optional(),
  /** The instructor has lowered the hand. */
  lowered: z.literal(true).optional(),
  /** Facts that the room has stored. */
  stored: z
    .array(z.tuple([z.string().max(200), time]))
    .max(MOST_FACTS)
    .optional(),
  /** The instructor looks at this learner: the path of a packet is wanted. */
  look: z.literal(true).optional(),
  /** Why the room does not take this learner. */
  refused: z.string().max(300).optional(),
})
export type RoomMessage = z.infer<typeof roomMessageSchema>

// From here on: the instructor's page, which is on the instructor's machine.

/** A step of a learner on the page, in few bytes. */
export interface TileStep {
  verdict: Verdict
  hints: number
  /** The difference in a few words: `3 stale chains on worker2`. */
  sign?: string
}

export interface LearnerTile {
  tile: number
  name: string
  lab: number | undefined
  /** The id of the step that the learner is at, `intro` or `end`. */
  step: string | undefined
  /** Since when (the room's clock), and until when if the learner is offline. */
  since: number
  /** By id, of the lab that the learner is at. */
  steps: Record<string, TileStep>
  points: number
  hints: number
  /** When the hand was raised. */
  hand: number | undefined
  offlineSince: number | undefined
  left: boolean
  /** Tasks of the room that are open, answered right and answered wrong. */
  tasks: { open: number; right: number; wrong: number }
}

export interface LabPlanned {
  number: number
  title: string
  minutes: number
  steps: {
    id: string
    title: string
    points: number
    question?: string
    choices: readonly string[]
  }[]
}

/** Lab `lab` is planned from `at` (the room's clock) for `minutes` minutes. */
export interface PlanEntry {
  lab: number
  at: number
  minutes: number
}

export interface PollResult {
  id: string
  ask: string
  open: boolean
  /** Answers with their number, the most frequent first. */
  answers: { text: string; count: number }[]
  voters: number
}

export interface RoomPush {
  name: string
  /** What learners type after `ROOM=`, and the same as a QR code (SVG). */
  word: string
  qr: string
  /** Whether what learners send is encrypted. */
  encrypted: boolean
  isOpen: boolean
  /** The room's clock when this was sent. */
  now: number
  notices: RoomNotice[]
  timers: Record<string, number>
  polls: PollResult[]
  plan: PlanEntry[]
  /** The median of the milliseconds in which a message of a learner was stored. */
  labs: LabPlanned[]
}

/** What the room's server pushes to the instructor's pages. */
export interface RoomPushes {
  room: RoomPush
  /** All tiles. */
  tiles: LearnerTile[]
  /** Those that have changed; one that was removed has no name. */
  changed: { tiles: LearnerTile[]; removed: number[]; now: number }
  /** The path of a packet on a learner's nodes, as the room has drawn it. */
  path: { tile: number; trouble: string } | { tile: number; path: DrawnShownPath }
}

export type DrawnShownPath = Pick<PacketPath, 'packet' | 'node' | 'mode'> & {
  stop?: string
  drawing: { wide: string; tall: string; label: string }
}

/** A learner's facts in full, for the page's detail. */
export interface LearnerDetail {
  tile: number
  steps: { lab: number; step: string; at: number; fact: StepFact }[]
  answers: { lab: number; step: string; what: string; text: string }[]
  tasks: {
    id: string
    ask: string
    askedAt: number
    answer?: string
    right?: boolean
    found?: string
    seconds?: number
  }[]
}

const tile = z.number().int().min(1)
/** The actions of the instructor's page. */
export const ROOM_ACTIONS = {
  tell: z.strictObject({
    text: z.string().trim().max(300),
    lab: lab.optional(),
    step: z.string().max(60).optional(),
  }),
  poll: z.strictObject({
    ask: z.string().trim().min(1).max(500),
    choices: z.array(z.string().trim().min(1).max(200)).max(12),
  }),
  timer: z.strictObject({ minutes: z.number().min(0.1).max(600), label: z.string().max(100) }),
  'end-notice': z.strictObject({ id }),
  'lower-hand': z.strictObject({ tile }),
  plan: z.strictObject({ text: z.string().max(500) }),
  /** `path` asks the learner's guide for the path of a packet, too. */
  look: z.strictObject({ tile, path: z.boolean() }),
  remove: z.strictObject({ tile }),
  door: z.strictObject({ open: z.boolean() }),
  /** A random task for each learner, or for one, at a random time within `withinMinutes`. */
  task: z.strictObject({ tile: tile.optional(), withinMinutes: z.number().min(0).max(240) }),
  export: z.strictObject({}),
} as const

export type RoomAction = keyof typeof ROOM_ACTIONS
export type RoomArguments<Name extends RoomAction> = z.infer<(typeof ROOM_ACTIONS)[Name]>

export interface RoomReplies {
  look: { detail: LearnerDetail }
  export: { files: string[] }
  plan: { plan: PlanEntry[] }
  task: { count: number }
}
export type RoomReply<Name extends RoomAction> = Name extends keyof RoomReplies
  ? RoomReplies[Name]
  : unknown
