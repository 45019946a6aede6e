// Leads a learner at a terminal through a lab: carries out on the lab's session what the guide's machine asks for.

import { setTimeout as pause } from 'node:timers/promises'
import type { Cluster } from '../../cluster/driver.ts'
import { drawTrace } from '../../dataplane/trace/draw.ts'
import { stoppingPlace } from '../../dataplane/trace/stopping-place.ts'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'
import { LabSession, sentenceOf } from '../lab-session.ts'
import { resolveRoute, stateOfNode } from '../live-node.ts'
import { advance, type GuideEffect, type GuideEvent, type GuideState, startGuide } from './guide-state.ts'
import { type GuideTerminal, isPlain, openTerminal } from './guide-terminal.ts'
import { diffSnapshots } from './node-diff.ts'
import type { Part } from './terminal-text.ts'

/** The nodes are looked at again so long after each look. */
const PAUSE_MS = 1500

/** Leads through a lab, from where it was left or from its starting state, until the learner leaves. Returns 0. */
export async function lead(lab: LabDefinition, cluster: Cluster, progress: Progress): Promise<number> {
  return new Guide(await LabSession.open(lab, cluster, progress)).run()
}

class Guide {
  readonly #session: LabSession
  readonly #over = new AbortController()
  #terminal: GuideTerminal | undefined
  #state: GuideState
  #latest: Snapshot | undefined
  /** The cluster as it was when the step that is shown began. */
  #before: Snapshot | undefined
  #lent = false

  constructor(session: LabSession) {
    this.#session = session
    this.#state = startGuide(session.lab, session.note, session.hints)
  }

  async run(): Promise<number> {
    const { number, steps } = this.#session.lab.definition
    // Ctrl-C leaves as q does; what a solution is just changing is given up.
    const interrupt = () => (this.#lent ? process.exit(130) : this.#send({ type: 'key', key: 'quit' }))
    const end = () => process.exit(143)
    process.on('SIGINT', interrupt)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, end)
    this.#terminal = openTerminal((event) => this.#send(event))
    this.#terminal.show(this.#state)
    await this.#watch()
    this.#terminal.end()
    process.off('SIGINT', interrupt)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, end)
    await this.#session.saved()
    const { at, view } = this.#state
    if (view !== 'end') console.log(`Step ${at + 1} of ${steps.length}. \`make lab-${number}\` goes on here.`)
    else console.log(this.#state.summary.replace(/\*\*|^#+ /gm, ''))
    return 0
  }

  #send(event: GuideEvent): void {
    const [state, effects] = advance(this.#state, event)
    this.#state = state
    this.#terminal?.show(state)
    for (const effect of effects) this.#carryOut(effect)
  }

  /** Begins what the machine asks for. What comes of work that takes a while is told to the machine; so is what went wrong. */
  #carryOut(effect: GuideEffect): void {
    if (effect.do === 'quit') this.#over.abort()
    if (effect.do === 'begin') this.#before = this.#latest
    if (effect.do === 'save') this.#session.save(this.#state, this.#state.view !== 'intro')
    if (effect.do === 'hint') this.#session.rememberHint(effect.step, effect.tier)
    if (effect.do === 'play') this.#play(effect.step)
    this.#workOf(effect)?.then(
      (event) => this.#send(event),
      (error) => this.#send({ type: 'trouble', text: sentenceOf(error) }),
    )
  }

  #workOf(effect: GuideEffect): Promise<GuideEvent> | undefined {
    if (effect.do === 'check') return this.#check(effect.step)
    if (effect.do === 'answer') return this.#answer(effect.step, effect.text)
    if (effect.do === 'trace') return this.#trace()
    if (effect.do === 'diff') return this.#diff()
    return effect.do === 'finish' ? this.#finish() : undefined
  }

  /** Looks at the nodes again and again, and sends no packet. */
  async #watch(): Promise<void> {
    const { signal } = this.#over
    while (!signal.aborted) {
      if (!this.#lent && this.#state.view !== 'end') await this.#look()
      await pause(PAUSE_MS, undefined, { signal }).catch(() => undefined)
    }
  }

  async #look(): Promise<void> {
    try {
      const { snapshot, outcomes } = await this.#session.look()
      if (this.#lent || this.#over.signal.aborted) return
      this.#latest = snapshot
      this.#before ??= snapshot
      this.#send({ type: 'looked', outcomes })
    } catch (error) {
      if (!this.#over.signal.aborted) this.#send({ type: 'trouble', text: sentenceOf(error) })
    }
  }

  async #check(step: string): Promise<GuideEvent> {
    return { type: 'checked', outcome: await this.#session.check(step) }
  }

  async #answer(step: string, text: string): Promise<GuideEvent> {
    try {
      await this.#session.answer(step, text)
    } catch (error) {
      return { type: 'panel', title: 'No answer', parts: [{ text: sentenceOf(error) }] }
    }
    return this.#check(step)
  }

  /** The way of a packet to the lab's Service, as `make trace` tells it. */
  async #trace(): Promise<GuideEvent> {
    const items = this.#latest?.items ?? []
    const has = (kind: string, name: string) =>
      items.some((item) => item.kind === kind && item.metadata.namespace === 'default' && item.metadata.name === name)
    const { cluster, variant } = this.#session.bench
    const from = has('Pod', 'client') ? 'pod/client' : 'host'
    const to = has('Service', variant.name) ? `svc/${variant.name}` : 'svc/kubernetes'
    const route = await resolveRoute(cluster, from, to)
    const packet = parsePacket(route.from, route.to)
    const state = await stateOfNode(cluster, route.node, packet.destination)
    const trace = tracePacket(state, packet)
    const stop = trace.verdict === 'accept' ? stoppingPlace(trace, packet, state) : undefined
    const lines = drawTrace(trace, { width: process.stdout.columns || 80, plain: isPlain(), stop })
    const command: Part = { text: `make trace FROM=${from} TO=${to}`, whole: true }
    const parts = lines.map((line): Part => ({ text: plainText(line), whole: true }))
    return { type: 'panel', title: `A packet on ${route.node}`, parts: [command, { text: '' }, ...parts] }
  }

  async #diff(): Promise<GuideEvent> {
    const now = await this.#session.source.snapshot()
    const parts = diffSnapshots(this.#before ?? now, now)
    return { type: 'panel', title: 'What has changed since this step began', parts }
  }

  /** Has the reference solution solve a step, on the terminal, which shows what it does. */
  async #play(step: string): Promise<void> {
    this.#lent = true
    const work = async () => {
      try {
        await this.#session.play(step)
      } catch (error) {
        console.log(sentenceOf(error))
      }
    }
    try {
      await this.#terminal?.lend(work)
    } finally {
      this.#lent = false
    }
  }

  async #finish(): Promise<GuideEvent> {
    return { type: 'finished', summary: await this.#session.finish(this.#state) }
  }
}
