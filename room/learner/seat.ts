// A learner's place in a room: what a guide tells is put into the outbox and sent when the room can
// be reached; what the room tells is shown by the guide. The lab never waits for any of it.

import { appendFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LabProgress } from '../../course/lab-progress.ts'
import type { LabSession } from '../../course/lab-session.ts'
import type { RoomSeat, RoomView, SeatNotice } from '../../course/room-seat.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import type { Report } from '../../grading/report-schema.ts'
import { roomMemberFolder } from '../../host/layout.ts'
import { reasonOf } from '../../host/main.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { isMetWithin } from '../../host/wait.ts'
import {
  keyOfFact,
  type LearnerFact,
  type RoomMessage,
  type RoomNotice,
  type RoomTask,
  type SentFact,
} from '../protocol.ts'
import { parseRoomWord } from '../word.ts'
import {
  factsOfProgress,
  factsOfReport,
  placeOfProgress,
  type Redact,
  withoutAddresses,
} from './learner-facts.ts'
import {
  forgetMember,
  joinRoom,
  memberFromEnvironment,
  ROOM_OFF,
  type RoomMember,
} from './member.ts'
import { Outbox } from './outbox.ts'
import { RoomLink } from './room-link.ts'
import { readShownPath } from './shown-path.ts'
import { answerTaskNote, noteTask, type TaskPlace } from './task-notes.ts'

/** How long a command that ends waits for a room that is connected. */
const LAST_MS = 500
/** How long leaving waits until the room knows. */
const LEAVE_MS = 3000
const SENT_LINES = 30
/** The file with everything that was sent begins again at this size. */
const SENT_BYTES = 256 * 1024

const OUT: RoomView = {
  state: 'out',
  room: '',
  word: '',
  name: '',
  isEncrypted: false,
  isHandRaised: false,
  trouble: undefined,
  notices: [],
  tasks: [],
  sent: [],
  waiting: 0,
}

export class LearnerSeat implements RoomSeat {
  readonly #folder: string
  #view: RoomView = OUT
  readonly #listeners: ((view: RoomView) => void)[] = []
  #member: RoomMember | undefined
  #outbox: Outbox
  #link: RoomLink | undefined
  #session: LabSession | undefined
  /** What was put last under a key, so that only changes are sent. */
  readonly #last = new Map<string, string>()
  readonly #votes = new Map<string, string>()
  #tasks: RoomTask[] = []

  private constructor(folder: string) {
    this.#folder = folder
    this.#outbox = new Outbox(folder)
  }

  /**
   * The seat of this cluster's learner: in the room that `ROOM` names or that was joined before, or
   * in none. Throws Refusal for a word that is not valid.
   */
  static open(folder = roomMemberFolder()): LearnerSeat {
    const seat = new LearnerSeat(folder)
    const member = memberFromEnvironment(folder)
    if (member) seat.#enter(member)
    if (process.env.ROOM === ROOM_OFF) seat.leave()
    return seat
  }

  /** The tasks of the room that are open, once it has told them. */
  get openTasks(): readonly RoomTask[] {
    return this.#tasks
  }

  /** Waits for the room's greeting, but not longer than this. Returns whether it came. */
  async greeted(mostMs: number): Promise<boolean> {
    if (!this.#member) return false
    return isMetWithin(mostMs, async () => this.#view.state === 'in' && this.#view.room !== '')
  }

  get view(): RoomView {
    return this.#view
  }

  onView(tell: (view: RoomView) => void): void {
    this.#listeners.push(tell)
    tell(this.#view)
  }

  opened(session: LabSession): void {
    this.#session = session
    void this.#showTasks()
  }

  progressed(progress: LabProgress): void {
    if (!this.#member) return
    const lab = progress.lab.definition.number
    for (const fact of factsOfProgress(progress, this.#redact)) this.#put(fact)
    this.#putPlace(lab, placeOfProgress(progress))
    this.#link?.flush()
  }

  /** Tells the room the result of `make check`. */
  reported(lab: LabDefinition, report: Report, hints: ReadonlyMap<string, number>): void {
    if (!this.#member) return
    for (const fact of factsOfReport(lab, report, hints, this.#redact)) this.#put(fact)
    const open = report.steps.find(({ verdict }) => verdict === 'failed' || verdict === 'not yet')
    // A learner without a guide is at the first open step.
    if (this.#place()?.lab !== lab.number) this.#putPlace(lab.number, open?.id ?? 'end')
    this.#link?.flush()
  }

  join(word: string, name: string): void {
    this.leave()
    this.#enter(joinRoom(this.#folder, word, name || undefined))
  }

  leave(): void {
    void this.leaveAndWait(LAST_MS)
  }

  /** Leaves the room at once, and waits for a moment until it knows. Returns whether it does. */
  async leaveAndWait(mostMs = LEAVE_MS): Promise<boolean> {
    const link = this.#link
    if (this.#member) this.#outbox.put({ kind: 'left', left: true })
    this.#forget()
    link?.flush()
    const isKnown = (await link?.stored(mostMs, { connecting: true })) ?? false
    link?.end()
    return isKnown
  }

  raiseHand(raised: boolean): void {
    this.#say({ kind: 'hand', raised })
    this.#show({ isHandRaised: raised })
  }

  vote(poll: string, text: string): void {
    this.#say({ kind: 'vote', poll, text })
    this.#votes.set(poll, text)
    const notices = this.#view.notices.map((notice) =>
      notice.kind === 'poll' && notice.id === poll ? { ...notice, mine: text } : notice,
    )
    this.#show({ notices })
  }

  /** `place` is that of the open lab by default. */
  async answerTask(
    id: string,
    text: string,
    place = this.#session && placeOfSession(this.#session),
  ): Promise<{ isRight: boolean; found: string }> {
    const task = this.#tasks.find((one) => one.id === id)
    if (!task || !place) throw new Error('This task of the room is not open any longer.')
    const { isRight, found } = await answerTaskNote(place, task, text)
    const { lab } = place
    this.#say({ kind: 'task', task: id, lab, text: shortened(text, 200), right: isRight, found })
    this.#tasks = this.#tasks.filter((one) => one !== task)
    await this.#showTasks()
    return { isRight, found }
  }

  async end(): Promise<void> {
    await this.#link?.stored(LAST_MS)
    this.#link?.end()
  }

  /** Of a cluster of a kubeconfig, no addresses are sent: its nodes are machines. */
  get #redact(): Redact | undefined {
    return this.#session?.bench.cluster.capabilities.ownedByUser ? withoutAddresses : undefined
  }

  #enter(member: RoomMember): void {
    this.#member = member
    this.#outbox = new Outbox(this.#folder)
    this.#last.clear()
    this.#show({
      ...OUT,
      state: 'joining',
      word: member.word,
      name: member.name,
      isEncrypted: parseRoomWord(member.word).fingerprint !== undefined,
    })
    this.#put({ kind: 'name', name: member.name })
    this.#put({ kind: 'left', left: false })
    const link: RoomLink = new RoomLink(member, this.#outbox, {
      onMessage: (message) => this.#link === link && this.#hear(message),
      onState: (state, trouble) => this.#link === link && this.#show({ state, trouble }),
      onSent: (facts) => this.#link === link && this.#noteSent(facts),
    })
    this.#link = link
  }

  /** From now on nothing is put into the outbox, and what the room says is not heard. */
  #forget(): void {
    this.#link = undefined
    this.#member = undefined
    this.#tasks = []
    forgetMember(this.#folder)
    this.#show(OUT)
  }

  #say(fact: LearnerFact): void {
    if (!this.#member) return
    this.#put(fact)
    this.#link?.flush()
  }

  /** Adds a fact to the outbox if it says something new. */
  #put(fact: LearnerFact): void {
    const [key, text] = [keyOfFact(fact), JSON.stringify(fact)]
    if (this.#last.get(key) === text) return
    this.#last.set(key, text)
    this.#outbox.put(fact)
    this.#show({ waiting: this.#outbox.waiting().length })
  }

  #placeFile = (): string => join(this.#folder, 'place.json')

  /** Where the learner was last, also by another command of this cluster. */
  #place(): { lab: number; step: string; since: number } | undefined {
    try {
      return JSON.parse(readFileSync(this.#placeFile(), 'utf8'))
    } catch {
      return undefined
    }
  }

  #putPlace(lab: number, step: string): void {
    const before = this.#place()
    const isSame = before?.lab === lab && before.step === step
    const place = isSame ? before : { lab, step, since: Date.now() }
    try {
      if (!isSame) writeFileSync(this.#placeFile(), JSON.stringify(place), { mode: 0o600 })
    } catch {
      // The minutes at the step begin again with the next command.
    }
    this.#put({ kind: 'place', ...place })
  }

  #hear(message: RoomMessage): void {
    const { welcome, notices, tasks, lowered, look, stored } = message
    if (welcome) this.#show({ room: plainText(welcome.room), trouble: undefined })
    if (notices) this.#show({ notices: notices.map((notice) => this.#noticeShown(notice)) })
    if (lowered) {
      this.#show({ isHandRaised: false })
      this.#last.delete('hand')
    }
    if (stored) this.#show({ waiting: this.#outbox.waiting().length })
    if (look) void this.#sendPath()
    if (tasks) {
      this.#tasks = tasks
      void this.#showTasks()
    }
  }

  #noticeShown(notice: RoomNotice): SeatNotice {
    if (notice.kind === 'text') return { ...notice, text: plainText(notice.text) }
    if (notice.kind === 'timer') {
      const { kind, id, label, leftMs } = notice
      return { kind, id, label: plainText(label), until: Date.now() + leftMs }
    }
    const { kind, id, ask, choices } = notice
    return { kind, id, ask: plainText(ask), choices, mine: this.#votes.get(id) }
  }

  /** Writes new tasks into the notes of the open lab, and shows them. */
  async #showTasks(): Promise<void> {
    const session = this.#session
    if (!session) return
    const shown: RoomView['tasks'] = []
    for (const task of this.#tasks)
      try {
        shown.push({ id: task.id, ask: await noteTask(placeOfSession(session), task) })
      } catch (error) {
        this.#show({ trouble: `A task of the room could not be shown: ${reasonOf(error)}` })
      }
    if (session === this.#session) this.#show({ tasks: shown })
  }

  async #sendPath(): Promise<void> {
    const session = this.#session
    const link = this.#link
    if (!session) return link?.send({ path: { trouble: 'No guide is open there.' } })
    if (session.bench.cluster.capabilities.ownedByUser)
      return link?.send({ path: { trouble: 'Of a cluster of a kubeconfig no path is sent.' } })
    try {
      link?.send({ path: await readShownPath(session) })
    } catch (error) {
      link?.send({ path: { trouble: shortened(plainText(reasonOf(error)), 300) } })
    }
  }

  /** Keeps what was sent for the learner: the last lines in the page, everything in a file. */
  #noteSent(facts: readonly SentFact[]): void {
    const lines = facts.map(
      ({ at, fact }) => `${new Date(at).toLocaleTimeString()} ${sentLine(fact)}`,
    )
    this.#show({ sent: [...lines.toReversed(), ...this.#view.sent].slice(0, SENT_LINES) })
    const file = join(this.#folder, 'sent.jsonl')
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      const isLong = (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > SENT_BYTES
      const text = facts.map((fact) => `${JSON.stringify(fact)}\n`).join('')
      if (isLong) writeFileSync(file, text, { mode: 0o600 })
      else appendFileSync(file, text, { mode: 0o600 })
    } catch {
      // The page has the last lines.
    }
  }

  #show(change: Partial<RoomView>): void {
    this.#view = { ...this.#view, ...change }
    for (const tell of this.#listeners) tell(this.#view)
  }
}

const placeOfSession = ({ bench, source, lab }: LabSession): TaskPlace => ({
  cluster: bench.cluster,
  client: bench.client,
  lab: lab.definition.number,
  snapshot: () => source.snapshot(),
})

/** A fact in words, for the learner. */
function sentLine(fact: LearnerFact): string {
  switch (fact.kind) {
    case 'name':
      return `name: ${fact.name}`
    case 'place':
      return `at lab ${fact.lab}, ${fact.step}`
    case 'step': {
      const found = fact.finding ? `, found ${shortened(fact.finding.found, 60)}` : ''
      return `lab ${fact.lab} ${fact.step}: ${fact.verdict}, ${fact.points} points, ${fact.hints} hints${found}`
    }
    case 'answer':
      return `${fact.what} at ${fact.step}: ${fact.text}`
    case 'hand':
      return fact.raised ? 'hand raised' : 'hand lowered'
    case 'vote':
      return `answer to the poll: ${fact.text}`
    case 'task':
      return `answer to the task: ${fact.text}; the node held ${fact.found}`
    case 'left':
      return fact.left ? 'left the room' : 'in the room'
  }
}

/** What a learner reads when a command begins in a room. */
export const joinedLine = ({ name, word, isEncrypted }: RoomView): string =>
  `You are in the room ${shortened(word, 60)} as "${name}": your instructor sees your steps, verdicts, differences and answers${isEncrypted ? '' : ' (not encrypted)'}. \`make leave-room\` ends it.`
