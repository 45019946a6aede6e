// What the guide's page and its server send each other. A field that is undefined is left out of
// the JSON. Pushes travel over the WebSocket /events as `{ NAME: … }`, actions are POST /api/NAME
// with JSON and have one reply; terminals are WebSockets of their own, /terminal/ID: binary
// messages are what is typed and what is printed, text messages of the page are JSON
// (TERMINAL_REQUEST).

import * as z from 'zod'
import type { LabRecord } from '../course/lab-records.ts'
import type { LinkPacket } from '../course/link-packets.ts'
import type { RoomView } from '../course/room-seat.ts'
import type { Cause } from '../dataplane/view/causes.ts'
import type { Change } from '../dataplane/view/changes.ts'
import type { NodeHoldings } from '../dataplane/view/holdings.ts'
import type { PacketPath } from '../dataplane/view/packet-path.ts'
import type { Finding, Verdict } from '../grading/report-schema.ts'

/** What does not change while a lab is worked on. */
export interface LabContent {
  number: number
  title: string
  intro: Block[]
  steps: StepContent[]
  /** All labs, with the minutes that each takes about. */
  labs: { number: number; title: string; minutes: number }[]
  /** Places of terminals: `host`, each node, and the machine outside if there is one. */
  places: string[]
}

export interface StepContent {
  id: string
  title: string
  points: number
  task: Block[]
  why: string
  /** The text to read after the step has passed. */
  seen: Block[]
  /** What later steps need. */
  onward: Block[]
  hints: number
  question: string | undefined
}

/** Rendered Markdown (raw HTML in the source is escaped), or a fence that a learner can run. */
export type Block =
  | { kind: 'html'; html: string }
  | { kind: 'fence'; language: string; text: string; run: boolean }
  | AskBlock

/**
 * A place at which the text asks: a prediction or question of a step, or a question about an
 * earlier lab.
 */
export interface AskBlock {
  kind: 'ask'
  what: 'predict' | 'question' | 'recall'
  /** Of the step or of the recall question. */
  id: string
  ask: string
  /** The possible answers; empty if any text can be one. */
  choices: readonly string[]
  /** Any number of the choices can be the answer. */
  many: boolean
}

/** Everything about the learner's progress. */
export interface ProgressPush {
  /** The shown step, `intro` or `end`: the same on all pages. */
  at: string
  /** The points of the steps that hold now. */
  points: number
  of: number
  /** The same with those that held before: what a submission is graded by. */
  kept: number
  labs: LabRecord[]
  /** Minutes that the lab was open and not paused. */
  minutes: number
  paused: boolean
  /**
   * Long work in progress: its name, or the part of it that is done now, and since when (ms since
   * 1970).
   */
  busy: { name: string; since: number } | undefined
  /** Why the nodes could not be read. `next`: the command that a button offers to run. */
  trouble: { text: string; next: string | undefined } | undefined
  /**
   * The time (ms since 1970) of which the verdicts are, while the next read of the nodes takes long
   * or waits for work.
   */
  asOf: number | undefined
  steps: StepProgress[]
  summary: Block[] | undefined
}

export interface StepProgress {
  id: string
  /** The points that it gives now. */
  points: number
  /**
   * The points that it gives in a submission: those that it gave before, if it does not hold now.
   */
  kept: number
  verdict: Verdict | undefined
  /** It was already true before the learner did anything. */
  alreadyPassed: boolean
  /**
   * Everything that can be seen without packets holds; a check sends the requests that prove it.
   */
  unsent: boolean
  /** The finding while it is open. */
  finding: ShownFinding | undefined
  reason: string | undefined
  waitsFor: string[] | undefined
  /** The hints taken so far. */
  hints: string[]
  measured: string[] | undefined
  /** All that is missing: the state holds. */
  unanswered: 'prediction' | 'answer' | undefined
  /** The first prediction. */
  predicted: string | undefined
  /** The question was answered right, or the answer was shown. */
  answered: boolean
  /** The learner had the answers shown: nothing is left to predict. */
  gaveUp: boolean
  /** The prediction beside what the nodes showed, and why; what help has cost. */
  learnt: string[]
}

/** A finding as `make check` prints it, with its differences as lines. */
export type ShownFinding = Omit<Finding, 'differences'> & { differences: string[] }

/** What the nodes hold now, and the changes since the previous moment. */
export interface DataplanePush {
  /** Milliseconds since 1970, and the index of this moment in the timeline. */
  at: number
  moment: number
  nodes: NodeHoldings[]
  changes: Change[]
  /** The command that made the changes, or `while … ran`, where that is known. */
  by: string | undefined
  /** Every cause once, as many entries have the same. */
  causes: Cause[]
  /** By node, for each of its entries in the order of entriesOf, the indices of its causes. */
  causedBy: Record<string, number[][]>
  services: string[]
  /** Possible origins and destinations of a packet, in the form that `make trace` accepts. */
  origins: string[]
  destinations: string[]
}

/**
 * A counter of an entry, and by how many packets or connections it grew since the nodes were read
 * before.
 */
export interface MovedCounter {
  packets?: number
  connections?: { active: number; inactive: number }
  by: number
}

/** Counters that changed since the nodes were last read, by `NODE ID` of their entry. */
export type CountersPush = Record<string, MovedCounter>

/** The moments of the timeline, each with the command or the first change that it is known by. */
export type TimelinePush = { moment: number; at: number; label: string }[]

export interface TerminalsPush {
  terminals: { id: string; place: string; title: string }[]
  /** Why there are none (no prebuilt node-pty for this machine). */
  trouble: string | undefined
}

/**
 * The blocks of commands that were run, by the key that the page gave them. Marks stay until the
 * lab is reset.
 */
export type RunsPush = Record<string, { lines: RunLine[] }>

export interface RunLine {
  text: string
  /**
   * `ended`: the shell does not report how. `not run`: cancelled, or a line before it has failed.
   */
  state: 'queued' | 'running' | 'succeeded' | 'failed' | 'ended' | 'not run'
  /** The exit status, once it is known. */
  status?: number
}

/** What the page sends to a terminal as text; how large the page shows it. */
export const TERMINAL_REQUEST = z.strictObject({
  columns: z.number().int().min(2).max(1000),
  rows: z.number().int().min(1).max(1000),
})

export interface IncidentPush {
  /** The lab's text goes through this very incident. */
  isWorked: boolean
  report: string
  /** Empty if the cause is named in a sentence. */
  choices: { id: string; cause: string }[]
  hints: string[]
  hintsLeft: number
  seed: string
  debrief?: { before: Change[]; repaired: Change[]; text: Block[] }
}

/** The packet that the shown step is about, on the cluster as it is. */
export interface StepPacketPush {
  step: string
  /** The place of the journey that the step is about. */
  at: string
  /** The question as it is asked for a path: `pod/client`, `10.96.0.10:53`. */
  from: string
  to: string
  node: string
  path: DrawnPath
  /** As it was when the step was opened, if it was another one. */
  before?: DrawnPath
  /** A packet of another sender. */
  beside?: { from: string; path: DrawnPath }
}

/**
 * What the server pushes, each by its name and whole whenever it changes; `incident` is null while
 * none is open, `stepPacket` at a step that is about no packet, or whose packet can not be sent
 * yet.
 */
export interface Pushes {
  stepPacket: StepPacketPush | null
  lab: LabContent
  progress: ProgressPush
  dataplane: DataplanePush
  counters: CountersPush
  timeline: TimelinePush
  terminals: TerminalsPush
  runs: RunsPush
  incident: IncidentPush | null
  /** The room of the class, and what was sent to it. */
  room: RoomView
}

/**
 * The actions: names and arguments of POST /api/NAME. Their reply is `{ ok: true, … }`, or
 * `{ error: sentence }` with status 4xx.
 */
export const ACTIONS = {
  go: z.strictObject({ to: z.string().max(60) }),
  check: z.strictObject({ step: z.string().max(60) }),
  answer: z.strictObject({ step: z.string().max(60), text: z.string().max(500) }),
  /** Shows what a step asks for, for a learner who gives up. */
  'show-answer': z.strictObject({ step: z.string().max(60) }),
  recall: z.strictObject({ id: z.string().max(60), text: z.string().max(500) }),
  hint: z.strictObject({ step: z.string().max(60) }),
  solve: z.strictObject({ step: z.string().max(60) }),
  pause: z.strictObject({ paused: z.boolean() }),
  reset: z.strictObject({}),
  lab: z.strictObject({ number: z.number().int().min(1).max(99) }),
  'join-room': z.strictObject({ word: z.string().max(300), name: z.string().max(60) }),
  'leave-room': z.strictObject({}),
  'raise-hand': z.strictObject({ raised: z.boolean() }),
  vote: z.strictObject({ poll: z.string().max(60), text: z.string().trim().min(1).max(200) }),
  'answer-task': z.strictObject({ task: z.string().max(60), text: z.string().max(200) }),
  submit: z.strictObject({ learner: z.string().max(60) }),
  /** The holdings of all nodes at a moment of the timeline. */
  moment: z.strictObject({ moment: z.number().int().min(0) }),
  /**
   * The path of a packet in each mode; `send` sends real packets and adds the kernel's counters to
   * the prediction.
   */
  path: z.strictObject({
    from: z.string().max(100),
    to: z.string().max(100),
    node: z.string().max(100).optional(),
    send: z.boolean(),
  }),
  /** The drawing of a path in a mode as a file, for slides and notes. */
  picture: z.strictObject({
    from: z.string().max(100),
    to: z.string().max(100),
    node: z.string().max(100).optional(),
    mode: z.string().max(20),
  }),
  /**
   * Types the commands of a block into a terminal on the host: this one, else the first, else a new
   * one.
   */
  run: z.strictObject({
    key: z.string().min(1).max(200),
    text: z.string().min(1).max(10_000),
    terminal: z.string().max(40).optional(),
  }),
  'cancel-run': z.strictObject({ key: z.string().max(200) }),
  'open-terminal': z.strictObject({ place: z.string().max(100) }),
  'close-terminal': z.strictObject({ id: z.string().max(40) }),
  incident: z.strictObject({
    action: z.enum(['open', 'hint', 'check', 'give up']),
    seed: z.string().max(40).optional(),
    /** No list of causes: the cause is named in a sentence. */
    hard: z.boolean().optional(),
  }),
}

export type ActionName = keyof typeof ACTIONS
export type ActionArguments<Name extends ActionName> = z.infer<(typeof ACTIONS)[Name]>

/** An SVG element in wide and tall form, and a text alternative. */
interface Picture {
  wide: string
  tall: string
  label: string
}

/**
 * A path with the drawing of its rules at each hook, and one of its whole journey where that is
 * known.
 */
export type DrawnPath = PacketPath & { drawing: Picture; picture?: Picture }

/** The fields of an action's reply besides `ok`; one that is not listed has no others. */
export interface ActionReplies {
  submit: { file: string; score: string }
  moment: { nodes: NodeHoldings[]; changes: Change[] }
  /** The node's own mode first. */
  path: {
    paths: DrawnPath[]
    /** What was sent, what answered, and one of the packets on each link that it passed. */
    sent?: { count: number; output: string; links: LinkPacket[] }
  }
  picture: { name: string; svg: string }
  'open-terminal': { id: string }
  run: { terminal: string }
  answer: { kept: 'prediction' | 'answer'; verdict: Verdict; lines: string[] }
  'show-answer': { lines: string[] }
  recall: { isRight: boolean; lines: string[] }
  'answer-task': { isRight: boolean; found: string }
}

export type Reply<Name extends ActionName> = Name extends keyof ActionReplies
  ? ActionReplies[Name]
  : unknown
