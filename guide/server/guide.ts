// The state behind the page: one lab on one cluster, kept in the server so that all pages show the
// same.

import { join } from 'node:path'
import type { WebSocket } from 'ws'
import { type Cluster, ClusterNotReady, notUp, requireUp } from '../../cluster/driver.ts'
import { openNext, takeHint } from '../../course/incident/open.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { LabAttempts } from '../../course/lab-attempts.ts'
import {
  applyCheck,
  applyObservation,
  forgetSteps,
  type LabProgress,
  reopened,
  shownStepId,
  showStep,
  startProgress,
} from '../../course/lab-progress.ts'
import { type LabRecord, LabRecords } from '../../course/lab-records.ts'
import { LabSession, safeReason } from '../../course/lab-session.ts'
import { resetLab } from '../../course/lab-solution.ts'
import { snapshotWithRoutes } from '../../course/read-node.ts'
import type { RoomSeat } from '../../course/room-seat.ts'
import { type Observed, Watch } from '../../course/watch.ts'
import { learnerName } from '../../grading/class-key.ts'
import { CompleteChecks } from '../../grading/complete-checks.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { findStep, type LabDefinition, mustRunHere, readLab } from '../../grading/lab-definition.ts'
import { scoreLine } from '../../grading/learner-report.ts'
import { recallLines } from '../../grading/recall.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { cacheFolder } from '../../host/layout.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'
import { handIn } from '../../instructors/submission/hand-in.ts'
import { Hub, type PushReceiver } from '../../web/hub.ts'
import type { ActionArguments, ActionName, ProgressPush, Pushes, Reply } from '../protocol.ts'
import { CommandLog } from './command-log.ts'
import { DataplaneView } from './dataplane-view.ts'
import { watchFolder } from './folder-watch.ts'
import { labVariables, writeVariables } from './lab-variables.ts'
import { answerLines, IncidentView, labContent, progressPush } from './lab-view.ts'
import { LongWork } from './long-work.ts'
import { findPaths, pictureOf } from './packet-paths.ts'
import { Runs } from './runs.ts'
import type { GuideHandler } from './server.ts'
import { HOST, shellAt } from './shell-command.ts'
import { StepPacketDrawing } from './step-packet-view.ts'
import { Terminals } from './terminals.ts'

/** Verdicts that are older than this are shown with their time. */
const STALE_MS = 2000

type GuideActions = {
  [Name in ActionName]: (input: ActionArguments<Name>) => Promise<Reply<Name>> | Reply<Name>
}

export class PageGuide implements GuideHandler {
  readonly #cluster: Cluster
  readonly #hub: Hub<Pushes>
  readonly #terminals: Terminals
  readonly #commands = new CommandLog()
  readonly #runs = new Runs((push) => this.#hub.push('runs', push))
  /** The file of the labs' variables in shells, and its content. */
  readonly #variables: string
  #written = ''
  readonly #watch: Watch
  readonly #dataplane: DataplaneView
  readonly #incidents = new IncidentView()
  readonly #stepPacket: StepPacketDrawing
  readonly #work = new LongWork(() => this.#tell())
  /** Progress lines, which the pages show, too, during long work. */
  readonly #shown: Progress
  /** The places of terminals. */
  readonly #places: string[]
  #seat: RoomSeat | undefined
  #session!: LabSession
  #progress!: LabProgress
  #trouble: ProgressPush['trouble']
  /** When the nodes were read last, and whether the pages are told. */
  #readAt: number | undefined
  #isStale = false
  readonly #records: LabRecords
  #labs: LabRecord[] = []
  readonly #attempts = new LabAttempts()
  readonly #over = new AbortController()

  private constructor(cluster: Cluster, nodes: string[], printed: Progress, kubectlFolder: string) {
    this.#cluster = cluster
    this.#shown = this.#work.progress(printed)
    this.#places = [HOST, ...nodes, ...(cluster.capabilities.hasOutside ? [OUTSIDE] : [])]
    this.#variables = join(cacheFolder, 'guide', `${cluster.driver}-${cluster.name}.sh`)
    this.#dataplane = new DataplaneView(cluster.capabilities.hasOutside, this.#commands)
    this.#watch = new Watch(cluster, () => this.#readNodes())
    this.#stepPacket = new StepPacketDrawing(
      () => snapshotWithRoutes(cluster),
      (push) => this.#hub.push('stepPacket', push),
      (error) => this.#tellTrouble(error),
    )
    this.#records = new LabRecords(cluster)
    // `make check-N` in another terminal.
    const { folder } = new CompleteChecks(cluster.driver, cluster.name)
    watchFolder(folder, () => this.#watch.sign(), this.#over.signal)
    this.#hub = new Hub<Pushes>((pages) => this.#watch.setWatched(pages > 0))
    this.#terminals = new Terminals({
      commandFor: (place) => shellAt(cluster, place, kubectlFolder, this.#variables),
      onChange: (push) => this.#hub.push('terminals', push),
      reportsOf: (id) => ({
        started: (command) => {
          this.#commands.started(id, command)
          this.#watch.sign()
        },
        ended: () => {
          this.#commands.ended(id)
          this.#watch.sign()
        },
        interrupted: () => this.#runs.cancelAll(id),
      }),
    })
  }

  /** Opens a lab of a running cluster. */
  static async open(
    cluster: Cluster,
    definition: LabDefinition,
    printed: Progress,
    kubectlFolder: string,
    seat?: RoomSeat,
  ): Promise<PageGuide> {
    const guide = new PageGuide(cluster, await cluster.nodes(), printed, kubectlFolder)
    guide.#seat = seat
    await guide.#open(definition)
    seat?.onView((view) => guide.#hub.push('room', view))
    await guide.#terminals.open(HOST).catch((error: unknown) => printed.note(safeReason(error)))
    void guide.#watch.run()
    return guide
  }

  async perform(name: ActionName, input: unknown): Promise<object | undefined> {
    // The server has checked the words by the schema of this name.
    const action = this.#actions[name] as (body: unknown) => object | undefined
    return action(input)
  }

  join(page: PushReceiver): void {
    this.#hub.join(page)
  }

  attach(terminal: string, page: WebSocket): boolean {
    return this.#terminals.attach(terminal, page)
  }

  /** Keeps the progress and ends every terminal. */
  async end(): Promise<void> {
    this.#over.abort()
    this.#watch.end()
    this.#save()
    await Promise.all([this.#terminals.end(), this.#session.saved()])
  }

  readonly #actions: GuideActions = {
    'join-room': ({ word, name }) => {
      this.#takenSeat.join(word, name)
      this.#tell()
    },
    'leave-room': () => this.#takenSeat.leave(),
    'raise-hand': ({ raised }) => this.#takenSeat.raiseHand(raised),
    vote: ({ poll, text }) => this.#takenSeat.vote(poll, text),
    'answer-task': ({ task, text }) => this.#takenSeat.answerTask(task, text),
    go: ({ to }) => {
      if (to === 'end')
        return this.#doing('Grading every step', async () => {
          const summary = await this.#session.finish(this.#progress, 'page')
          this.#progress = { ...this.#progress, place: 'end', summary }
        })
      const { steps } = this.#definition
      if (to === 'intro') this.#progress = { ...this.#progress, place: to }
      else this.#progress = showStep(this.#progress, steps.indexOf(findStep(this.#definition, to)))
      this.#save()
      this.#tell()
      this.#watch.sign()
    },
    check: ({ step }) => {
      findStep(this.#definition, step)
      return this.#doing('Checking', () => this.#check(step))
    },
    answer: ({ step, text }) =>
      this.#doingNext('Checking the answer', async () => {
        findStep(this.#definition, step)
        const kept = await this.#session.answer(step, text)
        const { verdict } = this.#apply(
          await this.#session.checkAnswered(kept, step, this.#tellWait),
        )
        return { kept, verdict, lines: answerLines(this.#progress.outcomes.get(step)) }
      }),
    'show-answer': ({ step }) =>
      this.#doingNext('Showing the answer', async () => {
        findStep(this.#definition, step)
        const lines = await this.#session.showAnswer(step)
        await this.#check(step)
        return { lines: lines.map(plainText) }
      }),
    recall: ({ id, text }) => {
      const recall = this.#definition.recall?.find((one) => one.id === id)
      if (!recall)
        throw new Error(
          `Lab ${this.#definition.number} has no question "${id}" about earlier labs.`,
        )
      const { isRight, lines } = recallLines(recall, text)
      return { isRight, lines: lines.slice(1).map(plainText) }
    },
    hint: ({ step }) => {
      const taken = this.#progress.hints
      const tier = (taken.get(step) ?? 0) + 1
      if (tier > findStep(this.#definition, step).hints.length)
        throw new Error(`Step "${step}" has no more hints: the solution is next.`)
      this.#session.rememberHint(step, tier)
      this.#progress = { ...this.#progress, hints: new Map(taken).set(step, tier) }
      this.#tell()
    },
    solve: ({ step }) =>
      this.#doing(`Solving step "${step}"`, async () => {
        for (const outcome of await this.#session.play(step))
          this.#progress = applyCheck(this.#progress, outcome)
      }),
    pause: ({ paused }) => {
      this.#session.pause(paused)
      this.#save()
      this.#tell()
    },
    reset: () =>
      this.#doing(`Resetting lab ${this.#definition.number}`, async () => {
        try {
          await resetLab(this.#definition, this.#session.bench)
        } finally {
          // What was earned was deleted with the lab's notes, also if the nodes do not follow in
          // time.
          this.#runs.forget(`${this.#definition.number}/`)
          this.#progress = startProgress(this.#session.lab, undefined, new Map())
        }
        await this.#open(this.#definition)
      }),
    lab: ({ number }) => {
      const definition = readLab(number)
      return this.#doingNext(`Opening lab ${number}`, async () => {
        await mustRunHere(this.#cluster, definition)
        this.#save()
        await this.#session.saved()
        await this.#open(definition)
      })
    },
    submit: ({ learner }) =>
      this.#doing('Writing the submission', async () => {
        const { file, report, notes } = await handIn(
          this.#cluster,
          this.#definition,
          learnerName(learner),
        )
        return { file, score: [`${scoreLine(report)}.`, ...notes].join(' ') }
      }),
    moment: ({ moment }) => {
      const { nodes, changes } = this.#dataplane.moment(moment)
      return { nodes, changes }
    },
    incident: ({ action, seed, hard }) => {
      const busy = {
        open: 'Starting an incident',
        hint: 'Taking a hint',
        check: 'Checking the repair',
        'give up': 'Solving the incident',
      }[action]
      return this.#doing(busy, async () => {
        if (this.#definition.number !== INCIDENT_LAB) await this.#open(readLab(INCIDENT_LAB))
        if (action === 'open') await this.#openIncident({ seed, hard })
        if (action === 'hint') await takeHint(this.#session.bench)
        if (action === 'check') {
          const outcomes = await this.#session.checkAll(this.#tellWait)
          this.#progress = outcomes.reduce(applyCheck, this.#progress)
          this.#save()
        }
        if (action === 'give up')
          for (const { id } of this.#definition.steps.slice(0, 2)) await this.#session.play(id)
      })
    },
    run: async ({ key, text, terminal }) => {
      const id = this.#terminals.find(HOST, terminal) ?? (await this.#terminals.open(HOST))
      this.#runs.add(key, text, id, (line, isWanted) => this.#terminals.enter(id, line, isWanted))
      return { terminal: id }
    },
    'cancel-run': ({ key }) => {
      const terminal = this.#runs.cancel(key)
      if (terminal !== undefined) this.#terminals.interrupt(terminal)
    },
    'open-terminal': async ({ place }) => {
      if (!this.#places.includes(place))
        throw new Error(
          `There is no place "${place}" for a terminal: there are ${this.#places.join(', ')}.`,
        )
      return { id: await this.#terminals.open(place) }
    },
    'close-terminal': ({ id }) => this.#terminals.close(id),
    picture: (asked) => pictureOf(this.#session.source.live, asked),
    path: (asked) => {
      const { live } = this.#session.source
      const find = () => findPaths(live, asked)
      return asked.send ? this.#doing('Sending packets', find) : find()
    },
  }

  get #takenSeat(): RoomSeat {
    if (this.#seat) return this.#seat
    throw new Error('This guide was started without a seat for a room.')
  }

  get #definition(): LabDefinition {
    return this.#session.lab.definition
  }

  /** Opens a lab; `before` is its progress if it was open until now. */
  async #open(definition: LabDefinition, before?: LabProgress): Promise<void> {
    this.#session = await LabSession.open(
      definition,
      this.#cluster,
      this.#shown,
      'with connections',
    )
    const { begun } = this.#session
    this.#progress = before ? reopened(before, begun) : begun
    this.#seat?.opened(this.#session)
    this.#hub.push('lab', labContent(this.#session.lab, this.#places))
    this.#trouble = undefined
    this.#tell()
    this.#watch.sign()
  }

  async #openIncident(asked: Pick<ActionArguments<'incident'>, 'seed' | 'hard'>): Promise<void> {
    const { lab, bench, source } = this.#session
    try {
      await openNext(bench, asked, (note, healthy) => {
        this.#incidents.opened(note.openedAt, this.#dataplane.read(healthy))
      })
    } finally {
      // The answers and verdicts of the previous incident were deleted with its notes, also if this
      // one fails to start.
      this.#progress = showStep(startProgress(lab, undefined, new Map()), 0)
      this.#save()
      await this.#show(await source.snapshot(), [], Date.now())
    }
  }

  async #check(step: string) {
    return this.#apply(await this.#session.check(step, this.#tellWait))
  }

  #apply(outcome: StepOutcome) {
    this.#progress = applyCheck(this.#progress, outcome)
    this.#save()
    return { verdict: outcome.verdict }
  }

  /** Tells the pages what a check waits for. */
  readonly #tellWait = ([first = '', ...more]: readonly string[]) =>
    this.#work.tell(`waiting, ${first}${more.length > 0 ? ` and ${more.length} more` : ''}`)

  /** Reads the nodes once and pushes the changes, or why they could not be read. */
  async #readNodes(): Promise<Observed> {
    if (this.#work.isBusy) return 'unchanged'
    try {
      // A cluster that was restarted after a failure may be a new one.
      if (this.#trouble !== undefined) {
        await requireUp(this.#cluster)
        if (this.#work.isBusy) return 'unchanged'
        // Without `#doing`: a failure is no activity, after which the nodes would be read again at
        // once.
        await this.#work.do(`Opening lab ${this.#definition.number}`, () =>
          this.#open(this.#definition, this.#progress),
        )
      }
      const session = this.#session
      const readAt = Date.now()
      const { outcomes, snapshot } = await this.#whileStale(() => session.observe())
      // State that was read during a solution or a reset is outdated.
      if (this.#work.isBusy || session !== this.#session) return 'unchanged'
      const kept = forgetSteps(
        this.#progress,
        this.#attempts.begunAgain(this.#definition, snapshot),
      )
      const { progress, fresh } = applyObservation(kept, outcomes)
      this.#progress = progress
      this.#trouble = undefined
      this.#readAt = readAt
      this.#labs = this.#records.of(snapshot)
      if (fresh.length > 0) this.#save()
      this.#tell()
      return await this.#show(snapshot, fresh, readAt)
    } catch (error) {
      const runs = await this.#cluster.running().catch(() => false)
      this.#tellTrouble(runs ? error : notUp(this.#cluster))
      return 'unread'
    }
  }

  #tellTrouble(error: unknown): void {
    this.#trouble = troubleOf(error)
    this.#tell()
  }

  /**
   * Pushes the changes of the nodes' state. `passed`: steps that have just passed; `readAt`: when
   * the read began.
   */
  async #show(snapshot: Snapshot, passed: readonly string[], readAt: number): Promise<Observed> {
    const { latest, isNew, counters } = this.#dataplane.see(snapshot, readAt)
    const variables = labVariables(snapshot, this.#session.bench.variant.name)
    if (variables !== this.#written) writeVariables(this.#variables, variables)
    this.#written = variables
    if (isNew) this.#hub.push('dataplane', latest)
    else this.#hub.keep('dataplane', latest)
    if (counters) this.#hub.pass('counters', counters)
    if (passed.length > 0) this.#dataplane.passed(passed)
    this.#hub.push('timeline', this.#dataplane.timeline())
    this.#hub.push('incident', await this.#incidents.see(snapshot, latest.nodes))
    const { place } = this.#progress
    const shown = place === 'step' ? shownStepId(this.#progress) : place
    this.#stepPacket.follow(this.#definition.number, shown, isNew)
    return isNew || passed.length > 0 ? 'changed' : 'unchanged'
  }

  /** Does long work, then reads the nodes. */
  #doing<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#whileStale(() => this.#work.do(name, work)).finally(() => this.#watch.sign())
  }

  /**
   * Does long work that is asked for while other work is done, of which the page may not know yet:
   * the check of a step that has passed meanwhile, or the grading at the end of a lab.
   */
  #doingNext<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#whileStale(() => this.#work.doNext(name, work)).finally(() => this.#watch.sign())
  }

  /**
   * Waits for what keeps the verdicts from being renewed, and tells the pages if that takes long.
   */
  async #whileStale<T>(work: () => Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#tellStale(true), STALE_MS)
    try {
      return await work()
    } finally {
      clearTimeout(timer)
      if (this.#isStale) this.#tellStale(false)
    }
  }

  #tellStale(isStale: boolean): void {
    this.#isStale = isStale
    this.#tell()
  }

  #save(): void {
    this.#session.save(this.#progress)
  }

  #tell(): void {
    this.#seat?.progressed(this.#progress)
    const minutes = Math.floor(this.#session.workedMs() / 60_000)
    const { paused } = this.#session
    const circumstances = {
      labs: this.#labs,
      minutes,
      paused,
      busy: this.#work.shown,
      trouble: this.#trouble,
      asOf: this.#isStale ? this.#readAt : undefined,
    }
    const { snapshot } = this.#dataplane
    const kept = snapshot ? this.#records.pointsOf(this.#definition.number, snapshot) : new Map()
    this.#hub.push('progress', progressPush(this.#progress, kept, circumstances))
  }
}

/** Why the nodes could not be read, and the command that repairs it if the error has one. */
const troubleOf = (error: unknown): ProgressPush['trouble'] => ({
  text: safeReason(error),
  next: error instanceof ClusterNotReady ? error.next : undefined,
})
