// The room: takes learners' facts, keeps them in the journal, and tells the instructor's pages and
// the learners what has changed.

import { createHash } from 'node:crypto'
import type { WebSocket } from 'ws'
import { drawPath } from '../../slides/figures/packets.ts'
import { Hub } from '../../web/hub.ts'
import type {
  Hello,
  LabPlanned,
  LearnerMessage,
  LearnerTile,
  RoomAction,
  RoomMessage,
  RoomPush,
  RoomPushes,
  SentFact,
  ShownPath,
} from '../protocol.ts'
import { keyOfFact } from '../protocol.ts'
import { instructorActions, type RoomDesk } from './instructor-actions.ts'
import { Journal } from './journal.ts'
import { labsPlanned } from './labs-planned.ts'
import type { LearnerHandler, LearnerLink } from './learner-port.ts'
import { isLoopback } from './learner-port.ts'
import { openNotices } from './notices.ts'
import { type Rate, RateLimit } from './rate-limit.ts'
import {
  applyEntry,
  emptyRoom,
  entriesOf,
  isNews,
  type JournalEntry,
  journalEntrySchema,
  type LearnerState,
  type RoomState,
} from './room-state.ts'
import { countVotes, tileOf } from './tiles.ts'

/** What does not change while a room runs. */
export interface RoomFacts {
  name: string
  folder: string
  word: string
  qr: string
  encrypted: boolean
}

/** Tiles that changed are pushed together, so often. */
const PUSH_MS = 100
/** Tasks that are due are given so often. */
const TASK_MS = 500
const MOST_LEARNERS = 1000
/**
 * New learners from one address; a class may be behind one. On this machine the instructor
 * simulates a class.
 */
const NEW_LEARNERS: Rate = { perSecond: 0.5, atOnce: 60 }
const OWN_LEARNERS: Rate = { perSecond: 100, atOnce: MOST_LEARNERS }
/** What one learner may add to the journal. */
const JOURNALED: Rate = { perSecond: 1024, atOnce: 256 * 1024 }
/** A journal with this many entries more than its state needs is written again at the start. */
const SUPERFLUOUS_ENTRIES = 5000

/**
 * A connection of a learner; one learner may have several: a guide, and a check in another
 * terminal.
 */
interface Connection {
  link: LearnerLink
  /** What is added to the learner's clock for that of the room. */
  offset: number
}

export class Room implements LearnerHandler {
  readonly #facts: RoomFacts
  readonly #state: RoomState
  readonly #journal: Journal
  readonly #labs: readonly LabPlanned[]
  readonly #hub = new Hub<RoomPushes>(() => undefined)
  readonly #startedAt = Date.now()
  /** By `who`. */
  readonly #connections = new Map<string, Set<Connection>>()
  readonly #offlineSince = new Map<string, number>()
  readonly #budgets = new Map<string, RateLimit>()
  readonly #newFrom = new Map<string, RateLimit>()
  readonly #tiles = new Map<string, LearnerTile>()
  readonly #changed = new Set<string>()
  readonly #removed = new Set<number>()
  #isRoomChanged = false
  readonly #timers: NodeJS.Timeout[]
  readonly #actions: ReturnType<typeof instructorActions>

  private constructor(facts: RoomFacts, state: RoomState, journal: Journal) {
    this.#facts = facts
    this.#state = state
    this.#journal = journal
    this.#labs = labsPlanned()
    this.#actions = instructorActions(this.#desk())
    for (const learner of state.learners.values()) this.#changed.add(learner.who)
    this.#isRoomChanged = true
    this.#push()
    this.#timers = [
      setInterval(() => this.#push(), PUSH_MS),
      setInterval(() => this.#giveTasks(), TASK_MS),
    ]
  }

  /** Opens a room with what its journal has. */
  static async open(facts: RoomFacts, journalFile: string): Promise<Room> {
    const state = emptyRoom()
    const { journal, entries } = await Journal.open(journalFile)
    for (const entry of entries) {
      const read = journalEntrySchema.safeParse(entry)
      if (read.success) applyEntry(state, read.data)
    }
    const needed = [...entriesOf(state)]
    if (entries.length <= needed.length + SUPERFLUOUS_ENTRIES)
      return new Room(facts, state, journal)
    await journal.close()
    await Journal.rewrite(journalFile, needed)
    return new Room(facts, state, (await Journal.open(journalFile)).journal)
  }

  /** A learner's machine has connected and says who it is. */
  arrive({ learner: secret, now }: Hello, link: LearnerLink): ReturnType<LearnerHandler['arrive']> {
    const who = createHash('sha256').update(secret).digest('hex').slice(0, 32)
    const learner = this.#state.learners.get(who) ?? this.#welcomeNew(who, link)
    if (!learner || learner.isRemoved) {
      link.send({ refused: 'The instructor has closed the room to new learners, or it is full.' })
      return undefined
    }
    const connection: Connection = { link, offset: Date.now() - now }
    const connections = this.#connections.get(who) ?? new Set()
    this.#connections.set(who, connections.add(connection))
    this.#touch(who)
    link.send({ welcome: { room: this.#facts.name }, ...this.#newsFor(learner) })
    return {
      take: (message) => this.#take(learner, connection, message),
      gone: () => {
        connections.delete(connection)
        if (connections.size === 0) this.#offlineSince.set(who, Date.now())
        this.#touch(who)
      },
    }
  }

  /** Performs an action of the instructor's page. */
  async perform(name: RoomAction, input: unknown): Promise<object | undefined> {
    const action = this.#actions[name] as (body: unknown) => Promise<object | undefined>
    return action(input)
  }

  /** Adds a page of the instructor. */
  join(page: WebSocket): void {
    this.#hub.keep('tiles', [...this.#tiles.values()])
    this.#hub.keep('room', this.#roomPush())
    this.#hub.join(page)
  }

  /** Stores what waits and ends. */
  async end(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await this.#journal.close()
  }

  #welcomeNew(who: string, { address }: LearnerLink): LearnerState | undefined {
    const { learners, isOpen } = this.#state
    const rate = isLoopback(address) ? OWN_LEARNERS : NEW_LEARNERS
    const limit = this.#newFrom.get(address) ?? new RateLimit(rate)
    this.#newFrom.set(address, limit)
    if (!isOpen || learners.size >= MOST_LEARNERS || !limit.take(1)) return undefined
    void this.#enter({ entry: 'joined', at: Date.now(), who, tile: learners.size + 1 })
    return learners.get(who)
  }

  #take(learner: LearnerState, connection: Connection, message: LearnerMessage): void {
    if (learner.isRemoved) connection.link.close('removed')
    else if ('path' in message) this.#showPath(learner, message.path)
    else if ('facts' in message) void this.#takeFacts(learner, connection, message.facts)
  }

  async #takeFacts(learner: LearnerState, connection: Connection, facts: SentFact[]) {
    const { link, offset } = connection
    const budget = this.#budgets.get(learner.who) ?? new RateLimit(JOURNALED)
    this.#budgets.set(learner.who, budget)
    const news = facts.filter((sent) => this.#isKnown(sent) && isNews(learner, sent))
    if (!budget.take(JSON.stringify(news).length)) return link.close('too much at once')
    try {
      await Promise.all(news.map((sent) => this.#enterFact(learner, sent, offset)))
      link.send({ stored: facts.map(({ stamp, fact }) => [keyOfFact(fact), stamp]) })
    } catch {
      // Not confirmed: the learner's machine keeps them and sends them again.
      link.close('the room could not store it')
    }
  }

  /**
   * Whether a fact is about a lab and step that exist, a poll that was opened, or a task that was
   * given to a learner.
   */
  #isKnown({ fact }: SentFact): boolean {
    if (fact.kind === 'vote') return this.#state.notices.has(fact.poll)
    if (fact.kind === 'task')
      return [...this.#state.learners.values()].some(({ tasks }) => tasks.has(fact.task))
    if (!('lab' in fact)) return true
    const lab = this.#labs.find(({ number }) => number === fact.lab)
    const isPlace = fact.kind === 'place' && (fact.step === 'intro' || fact.step === 'end')
    return lab !== undefined && (isPlace || lab.steps.some(({ id }) => id === fact.step))
  }

  #enterFact({ who }: LearnerState, { stamp, at, fact }: SentFact, offset: number): Promise<void> {
    const onRoomsClock = (time: number) => Math.min(Date.now(), Math.max(0, time + offset))
    const own = fact.kind === 'place' ? { ...fact, since: onRoomsClock(fact.since) } : fact
    if (fact.kind === 'vote') this.#isRoomChanged = true
    return this.#enter({ entry: 'fact', at: onRoomsClock(at), who, stamp, fact: own })
  }

  /** Applies an entry and stores it; resolves when it is on the disk. */
  #enter(entry: JournalEntry): Promise<void> {
    applyEntry(this.#state, entry)
    if ('who' in entry) this.#touch(entry.who)
    else this.#isRoomChanged = true
    const stored = this.#journal.append(entry)
    stored.catch(() => console.error('The journal of the room can’t be written: is the disk full?'))
    return stored
  }

  #touch(who: string): void {
    this.#changed.add(who)
  }

  #offline({ who }: LearnerState): number | undefined {
    if ((this.#connections.get(who)?.size ?? 0) > 0) return undefined
    return this.#offlineSince.get(who) ?? this.#startedAt
  }

  #push(): void {
    if (this.#changed.size > 0 || this.#removed.size > 0) this.#pushTiles()
    if (this.#isRoomChanged) this.#hub.push('room', this.#roomPush())
    this.#isRoomChanged = false
  }

  #pushTiles(): void {
    const learners = [...this.#changed].flatMap((who) => this.#state.learners.get(who) ?? [])
    const shown = learners.filter(({ isRemoved }) => !isRemoved)
    const tiles = shown.map((learner) => {
      const tile = tileOf(learner, this.#offline(learner))
      this.#tiles.set(learner.who, tile)
      return tile
    })
    this.#hub.pass('changed', { tiles, removed: [...this.#removed], now: Date.now() })
    this.#changed.clear()
    this.#removed.clear()
  }

  #roomPush(): RoomPush {
    const { notices, plan, isOpen } = this.#state
    const { folder: _folder, ...facts } = this.#facts
    const timers = [...notices.values()].flatMap(({ notice, endedAt }) =>
      notice.kind === 'timer' && endedAt === undefined ? [[notice.id, notice.until] as const] : [],
    )
    return {
      ...facts,
      isOpen,
      plan,
      now: Date.now(),
      notices: openNotices(this.#state, Date.now()),
      timers: Object.fromEntries(timers),
      polls: [...notices.values()].flatMap(({ notice, endedAt }) => {
        if (notice.kind !== 'poll') return []
        const { id, ask, choices } = notice
        const votes = countVotes(this.#state, id, choices)
        return [{ id, ask, open: endedAt === undefined, ...votes }]
      }),
      labs: [...this.#labs],
    }
  }

  /** What a learner is told when it connects, and again when something of it has changed. */
  #newsFor(learner: LearnerState): RoomMessage {
    const assigned = [...learner.tasks.values()].filter(({ givenAt }) => givenAt !== undefined)
    const open = assigned.filter(({ task }) => !learner.facts.has(`task ${task.id}`))
    return {
      notices: openNotices(this.#state, Date.now()),
      tasks: open.slice(0, 20).map(({ task }) => task),
    }
  }

  #tell(who: string, message: RoomMessage): void {
    for (const { link } of this.#connections.get(who) ?? []) link.send(message)
  }

  #giveTasks(): void {
    const now = Date.now()
    for (const learner of this.#state.learners.values()) {
      if (learner.isRemoved || this.#offline(learner) !== undefined) continue
      const due = [...learner.tasks.values()].filter(
        (task) => task.givenAt === undefined && task.due <= now,
      )
      for (const { task } of due)
        void this.#enter({ entry: 'given', at: now, who: learner.who, id: task.id })
      if (due.length > 0) this.#tell(learner.who, this.#newsFor(learner))
    }
  }

  #showPath({ tile }: LearnerState, shown: ShownPath | { trouble: string }): void {
    if ('trouble' in shown) {
      this.#hub.pass('path', { tile, trouble: shown.trouble })
      return
    }
    try {
      const hooks = shown.hooks.map(({ hook, actions }) => ({ hook, actions: [...actions] }))
      const { packet, node, mode, stop } = shown
      const drawing = drawPath({ ...shown, hooks, stop: stop && { ...stop, sentence: stop.words } })
      const path = {
        packet,
        node,
        mode,
        drawing,
        ...(stop && { stop: `${stop.hook}: ${stop.words}` }),
      }
      this.#hub.pass('path', { tile, path })
    } catch {
      // Texts that do not fit into the drawing come from no guide.
      this.#hub.pass('path', { tile, trouble: 'The path can’t be drawn.' })
    }
  }

  /** What the instructor's actions use of the room. */
  #desk(): RoomDesk {
    return {
      state: this.#state,
      labs: this.#labs,
      folder: this.#facts.folder,
      name: this.#facts.name,
      enter: (entry) => this.#enter(entry),
      tellAll: () => {
        for (const learner of this.#state.learners.values())
          this.#tell(learner.who, this.#newsFor(learner))
      },
      tell: (who, message) => this.#tell(who, message),
      remove: (learner) => {
        this.#removed.add(learner.tile)
        this.#tiles.delete(learner.who)
        for (const { link } of this.#connections.get(learner.who) ?? []) link.close('removed')
      },
    }
  }
}
