// The guide for a terminal: performs the effects of the guide's state machine on the lab's session.

import { isDeepStrictEqual } from 'node:util'
import type { Cluster } from '../../cluster/driver.ts'
import { drawTrace } from '../../dataplane/trace/draw.ts'
import { stoppingPlace } from '../../dataplane/trace/stopping-place.ts'
import { tracePacket } from '../../dataplane/trace.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'
import { LabAttempts } from '../lab-attempts.ts'
import { labRoute } from '../lab-packet.ts'
import { LabSession, safeReason } from '../lab-session.ts'
import { livePacket } from '../read-node.ts'
import type { RoomSeat, RoomView, SeatNotice } from '../room-seat.ts'
import { type Observed, Watch } from '../watch.ts'
import {
  advance,
  type GuideEffect,
  type GuideEvent,
  type GuideState,
  placeBlock,
  startGuide,
} from './guide-state.ts'
import { isPlain, LineTerminal } from './line-terminal.ts'
import { diffSnapshots } from './node-diff.ts'
import type { Part } from './terminal-text.ts'

/**
 * Guides a learner through a lab, from the saved step or from the starting state, until the learner
 * quits. Returns 0.
 */
export async function guideThroughLab(
  lab: LabDefinition,
  cluster: Cluster,
  progress: Progress,
  seat?: RoomSeat,
): Promise<number> {
  return new Guide(await LabSession.open(lab, cluster, progress), seat).run()
}

class Guide {
  readonly #session: LabSession
  readonly #seat: RoomSeat | undefined
  /** Notices and tasks of the room that were shown. */
  readonly #toldBefore = new Set<string>()
  readonly #watch: Watch
  readonly #attempts = new LabAttempts()
  readonly #terminal = new LineTerminal((event) => this.#send(event))
  #state: GuideState
  #latest: Snapshot | undefined
  /** The state of the cluster when the current step was first shown. */
  #atStepStart: Snapshot | undefined
  #isSolving = false

  constructor(session: LabSession, seat: RoomSeat | undefined) {
    this.#session = session
    this.#seat = seat
    seat?.opened(session)
    this.#state = startGuide(session.begun)
    this.#watch = new Watch(session.bench.cluster, () => this.#observe())
  }

  async run(): Promise<number> {
    const { number, steps } = this.#session.lab.definition
    // Ctrl-C quits like q. During a solution it ends the process immediately.
    const interrupt = () => (this.#isSolving ? process.exit(130) : this.#send({ type: 'quit' }))
    const end = () => process.exit(143)
    process.on('SIGINT', interrupt)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, end)
    this.#terminal.open()
    this.#terminal.print(placeBlock(this.#state))
    this.#terminal.showStatus(this.#state)
    this.#seat?.onView((view) => this.#tellNews(view))
    this.#watch.setWatched(true)
    await this.#watch.run()
    this.#terminal.close()
    process.off('SIGINT', interrupt)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, end)
    await this.#session.saved()
    const { at, place } = this.#state
    if (place !== 'end')
      console.log(
        `Step ${at + 1} of ${steps.length}. \`make lab-${number}\` continues with this step.`,
      )
    return 0
  }

  #send(event: GuideEvent): void {
    const [state, effects] = advance(this.#state, event)
    this.#state = state
    this.#seat?.progressed(state)
    for (const effect of effects) this.#perform(effect)
    this.#terminal.showStatus(state)
  }

  /** Shows what the instructor tells or asks, once. */
  #tellNews({ notices, tasks }: RoomView): void {
    for (const { id, text } of [...notices.map(noticeLine), ...tasks.map(taskLine)]) {
      if (this.#toldBefore.has(id)) continue
      this.#toldBefore.add(id)
      this.#send({ type: 'notice', text: plainText(text) })
    }
  }

  /**
   * Performs an effect. The result of asynchronous work, or its error, is sent back as an event.
   */
  #perform(effect: GuideEffect): void {
    this.#work(effect)?.then(
      (event) => this.#send(event),
      (error) => this.#send({ type: 'trouble', text: safeReason(error) }),
    )
  }

  #work(effect: GuideEffect): Promise<GuideEvent> | undefined {
    switch (effect.do) {
      case 'check':
        return this.#check(effect.step)
      case 'answer':
        return this.#answer(effect.step, effect.text)
      case 'trace':
        return this.#trace()
      case 'diff':
        return this.#diff()
      case 'finish':
        return this.#finish()
      case 'play':
        return this.#play(effect.step)
      case 'print':
        this.#terminal.print(effect.block)
        return undefined
      case 'quit':
        this.#watch.end()
        return undefined
      case 'begin':
        this.#atStepStart = this.#latest
        return undefined
      case 'save':
        this.#session.save(this.#state)
        return undefined
      case 'hint':
        this.#session.rememberHint(effect.step, effect.tier)
        return undefined
    }
  }

  /** Observes the nodes, without sending packets. */
  async #observe(): Promise<Observed> {
    if (this.#isSolving) return 'unchanged'
    try {
      const { snapshot, outcomes } = await this.#session.observe()
      if (this.#isSolving) return 'unchanged'
      const before = this.#state.outcomes
      this.#latest = snapshot
      this.#atStepStart ??= snapshot
      const begunAgain = this.#attempts.begunAgain(this.#session.lab.definition, snapshot)
      this.#send({ type: 'observed', outcomes, begunAgain })
      return isDeepStrictEqual(before, this.#state.outcomes) ? 'unchanged' : 'changed'
    } catch (error) {
      this.#send({ type: 'trouble', text: safeReason(error) })
      return 'unread'
    }
  }

  async #check(step: string): Promise<GuideEvent & { type: 'checked' }> {
    return { type: 'checked', outcome: await this.#session.check(step) }
  }

  async #answer(step: string, text: string): Promise<GuideEvent> {
    try {
      const kept = await this.#session.answer(step, text)
      const outcome = await this.#session.checkAnswered(kept, step)
      return { type: kept === 'prediction' ? 'predicted' : 'checked', outcome }
    } catch (error) {
      const parts = [{ text: safeReason(error) }]
      return { type: 'result', block: { title: 'Invalid answer', parts } }
    }
  }

  /** The path of a packet to the lab's Service, as drawn by `make trace`. */
  async #trace(): Promise<GuideEvent> {
    const { cluster, variant } = this.#session.bench
    const { from, to } = labRoute(this.#latest?.items ?? [], variant)
    const { packet, node, state } = await livePacket(cluster, from, to)
    const trace = tracePacket(state, packet)
    const stop = trace.verdict === 'accept' ? stoppingPlace(trace, packet, state) : undefined
    const lines = drawTrace(trace, { width: process.stdout.columns || 80, plain: isPlain(), stop })
    const command: Part = { text: `make trace FROM=${from} TO=${to}`, whole: true }
    const parts = lines.map((line): Part => ({ text: plainText(line), whole: true }))
    const title = `A packet on ${node}`
    return { type: 'result', block: { title, parts: [command, { text: '' }, ...parts] } }
  }

  async #diff(): Promise<GuideEvent> {
    const now = await this.#session.source.snapshot()
    const parts = diffSnapshots(this.#atStepStart ?? now, now)
    return { type: 'result', block: { title: 'Changes since this step began', parts } }
  }

  /** Runs the reference solution of a step, with its output on the terminal. */
  async #play(step: string): Promise<GuideEvent> {
    this.#isSolving = true
    try {
      await this.#session.play(step)
      return { type: 'result', block: { parts: [{ text: 'The solution has run.' }] } }
    } finally {
      this.#isSolving = false
      this.#watch.sign()
    }
  }

  async #finish(): Promise<GuideEvent> {
    return { type: 'finished', summary: await this.#session.finish(this.#state) }
  }
}

/** A notice of the room as one line, with the command that answers it. */
function noticeLine(notice: SeatNotice): { id: string; text: string } {
  const { id } = notice
  if (notice.kind === 'text') return { id, text: `Room: ${notice.text}` }
  if (notice.kind === 'timer') {
    const minutes = Math.ceil((notice.until - Date.now()) / 60_000)
    return { id, text: `Room: ${minutes} min for ${notice.label || 'now'}` }
  }
  const choices = notice.choices.length > 0 ? ` (${notice.choices.join(', ')})` : ''
  return {
    id,
    text: `Room: ${notice.ask}${choices} Answer in another terminal: make room-answer A='…'`,
  }
}

const taskLine = ({ id, ask }: RoomView['tasks'][number]) => ({
  id,
  text: `Room: ${ask} Answer in another terminal: make room-answer A='…'`,
})
