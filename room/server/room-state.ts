// What a room knows, as a pure function of its journal. Facts of learners merge: an entry that
// comes twice, late or in another order leads to the same state.

import * as z from 'zod'
import {
  keyOfFact,
  type LearnerFact,
  learnerFactSchema,
  roomTaskSchema,
  type SentFact,
} from '../protocol.ts'

const time = z.number().int()
const tile = z.number().int().min(1)
/** Identifies a learner in the journal: a digest of what the learner's checkout keeps to itself. */
const who = z.string().regex(/^[0-9a-f]{32}$/)

const noticeEntrySchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('text'),
    id: z.string(),
    text: z.string(),
    to: z.object({ lab: z.number(), step: z.string(), number: z.number() }).optional(),
  }),
  z.object({
    kind: z.literal('poll'),
    id: z.string(),
    ask: z.string(),
    choices: z.array(z.string()),
  }),
  z.object({ kind: z.literal('timer'), id: z.string(), label: z.string(), until: time }),
])
export type NoticeEntry = z.infer<typeof noticeEntrySchema>

/** One line of the journal; `at` is the room's clock. */
export const journalEntrySchema = z.discriminatedUnion('entry', [
  z.object({ entry: z.literal('joined'), at: time, who, tile }),
  z.object({ entry: z.literal('fact'), at: time, who, stamp: time, fact: learnerFactSchema }),
  z.object({ entry: z.literal('removed'), at: time, who }),
  z.object({ entry: z.literal('notice'), at: time, notice: noticeEntrySchema }),
  z.object({ entry: z.literal('ended'), at: time, id: z.string() }),
  z.object({ entry: z.literal('lowered'), at: time, who }),
  z.object({
    entry: z.literal('plan'),
    at: time,
    plan: z.array(z.object({ lab: z.number(), at: time, minutes: z.number() })),
  }),
  z.object({ entry: z.literal('door'), at: time, open: z.boolean() }),
  /** A task that a learner is to get from `due` on. */
  z.object({ entry: z.literal('task'), at: time, who, due: time, task: roomTaskSchema }),
  z.object({ entry: z.literal('given'), at: time, who, id: z.string() }),
])
export type JournalEntry = z.infer<typeof journalEntrySchema>

export interface KeptFact {
  stamp: number
  at: number
  fact: LearnerFact
}

export interface TaskState {
  task: z.infer<typeof roomTaskSchema>
  due: number
  givenAt: number | undefined
}

export interface LearnerState {
  who: string
  tile: number
  joinedAt: number
  isRemoved: boolean
  /** By key. */
  facts: Map<string, KeptFact>
  loweredAt: number
  tasks: Map<string, TaskState>
}

export interface NoticeState {
  notice: NoticeEntry
  at: number
  endedAt: number | undefined
}

export interface RoomState {
  learners: Map<string, LearnerState>
  notices: Map<string, NoticeState>
  plan: { lab: number; at: number; minutes: number }[]
  isOpen: boolean
}

export const emptyRoom = (): RoomState => ({
  learners: new Map(),
  notices: new Map(),
  plan: [],
  isOpen: true,
})

/** Whether a fact would change what is known of a learner. */
export function isNews({ facts }: LearnerState, { stamp, fact }: SentFact): boolean {
  const kept = facts.get(keyOfFact(fact))
  return kept === undefined || stamp > kept.stamp
}

/**
 * Applies an entry to a state, which is changed. An entry about a learner or notice that is not
 * known changes nothing.
 */
export function applyEntry(state: RoomState, entry: JournalEntry): void {
  if (entry.entry === 'joined') {
    const { who, tile, at: joinedAt } = entry
    if (!state.learners.has(who))
      state.learners.set(who, {
        who,
        tile,
        joinedAt,
        isRemoved: false,
        loweredAt: 0,
        facts: new Map(),
        tasks: new Map(),
      })
  } else if (entry.entry === 'notice')
    state.notices.set(entry.notice.id, { notice: entry.notice, at: entry.at, endedAt: undefined })
  else if (entry.entry === 'ended') {
    const ended = state.notices.get(entry.id)
    if (ended) ended.endedAt = entry.at
  } else if (entry.entry === 'plan') state.plan = entry.plan
  else if (entry.entry === 'door') state.isOpen = entry.open
  else {
    const learner = state.learners.get(entry.who)
    if (learner) applyToLearner(learner, entry)
  }
}

type EntryOfLearner = Extract<JournalEntry, { who: string }>

function applyToLearner(learner: LearnerState, entry: EntryOfLearner): void {
  const { at } = entry
  if (entry.entry === 'fact') {
    const { stamp, fact } = entry
    if (isNews(learner, { stamp, at, fact }))
      learner.facts.set(keyOfFact(fact), { stamp, at, fact })
  } else if (entry.entry === 'removed') learner.isRemoved = true
  else if (entry.entry === 'lowered') learner.loweredAt = at
  else if (entry.entry === 'task')
    learner.tasks.set(entry.task.id, { task: entry.task, due: entry.due, givenAt: undefined })
  else if (entry.entry === 'given') {
    const assigned = learner.tasks.get(entry.id)
    if (assigned) assigned.givenAt ??= at
  }
}

/** The shortest journal that leads to the same state. */
export function* entriesOf(state: RoomState): Generator<JournalEntry> {
  for (const learner of state.learners.values()) yield* entriesOfLearner(learner)
  for (const { notice, at, endedAt } of state.notices.values()) {
    yield { entry: 'notice', at, notice }
    if (endedAt !== undefined) yield { entry: 'ended', at: endedAt, id: notice.id }
  }
  yield { entry: 'plan', at: 0, plan: state.plan }
  yield { entry: 'door', at: 0, open: state.isOpen }
}

function* entriesOfLearner(learner: LearnerState): Generator<JournalEntry> {
  const { who, tile, joinedAt, loweredAt, isRemoved } = learner
  yield { entry: 'joined', at: joinedAt, who, tile }
  for (const { stamp, at, fact } of learner.facts.values())
    yield { entry: 'fact', at, who, stamp, fact }
  if (loweredAt > 0) yield { entry: 'lowered', at: loweredAt, who }
  for (const { task, due, givenAt } of learner.tasks.values()) {
    yield { entry: 'task', at: due, who, due, task }
    if (givenAt !== undefined) yield { entry: 'given', at: givenAt, who, id: task.id }
  }
  if (isRemoved) yield { entry: 'removed', at: joinedAt, who }
}

/** What is known of a learner under a key; undefined if nothing is. */
export function factOf<Kind extends LearnerFact['kind']>(
  { facts }: LearnerState,
  kind: Kind,
  key: string = kind,
): (KeptFact & { fact: Extract<LearnerFact, { kind: Kind }> }) | undefined {
  const kept = facts.get(key)
  return kept?.fact.kind === kind
    ? (kept as KeptFact & { fact: Extract<LearnerFact, { kind: Kind }> })
    : undefined
}
