// Leads a learner at a terminal through a lab: carries out on the cluster what the guide's machine asks for.

import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import type { Cluster } from '../../cluster/driver.ts'
import { drawTrace } from '../../dataplane/trace/draw.ts'
import { stoppingPlace } from '../../dataplane/trace/stopping-place.ts'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { gradeWith, loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { findStep, type LabDefinition, readLab } from '../../grading/lab-definition.ts'
import { listLabs } from '../../grading/lab-folders.ts'
import { NOTES_NAMESPACE, notesName, writeNotes } from '../../grading/lab-notes.ts'
import { scoreLine } from '../../grading/learner-report.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { openCluster } from '../../grading/source.ts'
import { personalise } from '../../grading/variant.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'
import { rememberHint, shownHints } from '../hint-memory.ts'
import { LabBench, type LabSolution, loadSolution } from '../lab-bench.ts'
import { resetLab } from '../lab-reset.ts'
import { readLabText } from '../lab-text.ts'
import { resolveRoute, stateOfNode } from '../live-node.ts'
import { playSteps } from '../play-lab.ts'
import {
  advance,
  type GuideEffect,
  type GuideEvent,
  type GuideLab,
  type GuideNote,
  type GuideState,
  startGuide,
  stepOf,
} from './guide-state.ts'
import { type GuideTerminal, isPlain, openTerminal } from './guide-terminal.ts'
import { diffSnapshots } from './node-diff.ts'
import type { Part } from './terminal-text.ts'

/** The nodes are looked at again so long after each look. */
const PAUSE_MS = 1500
const NOTE_KEY = 'guide'
/** Where the part of a section begins that is told afterwards. */
const SEEN = '**What you saw.**'

const noteSchema = z.object({
  at: z.string(),
  workedMs: z.number(),
  shown: z.array(z.string()),
  held: z.array(z.string()),
  passed: z.array(z.string()),
})

/** Leads through a lab, from where it was left or from its starting state, until the learner leaves. Returns 0. */
export async function lead(lab: LabDefinition, cluster: Cluster, progress: Progress): Promise<number> {
  const [spec, bench] = await Promise.all([
    loadSpec(lab),
    LabBench.open(cluster, progress, `work through lab ${lab.number}`),
  ])
  const begun = await readNotes(lab, bench)
  if (begun)
    progress.note(`Lab ${lab.number} goes on from what the cluster holds; make reset-${lab.number} starts over.`)
  else await resetLab(lab, bench)
  const [solution, source] = await Promise.all([loadSolution(lab.folder), openCluster(cluster)])
  return new Guide(spec, solution, bench, source, readNote(begun?.[NOTE_KEY])).run()
}

/** What the cluster's ConfigMap of a lab holds; undefined when the lab was not begun. */
async function readNotes(lab: LabDefinition, { client }: LabBench): Promise<Record<string, string> | undefined> {
  const fieldSelector = `metadata.name=${notesName(lab.number)}`
  const { items } = await client.core.listNamespacedConfigMap({ namespace: NOTES_NAMESPACE, fieldSelector })
  return items[0] && (items[0].data ?? {})
}

function readNote(text = ''): GuideNote | undefined {
  try {
    return noteSchema.parse(JSON.parse(text))
  } catch {
    // None yet, or one that was edited: the guide begins at the first step.
    return undefined
  }
}

/** The texts of a lab in the names of the learner's variant. */
function guideLab({ lab }: LabSpec, solution: LabSolution, { variant }: LabBench): GuideLab {
  const { intro, sections } = readLabText(lab.folder)
  const own = (text: string) => personalise(text, variant)
  const steps = lab.steps.map((definition) => {
    const section = sections.get(definition.id) ?? `## ${definition.title}`
    const at = section.indexOf(SEEN)
    return {
      definition,
      task: own(at === -1 ? section : section.slice(0, at)),
      seen: at === -1 ? '' : own(section.slice(at)),
      hints: definition.hints.map(own),
      solution: (solution.steps[definition.id]?.commands ?? []).map(own),
    }
  })
  return { definition: lab, intro: own(intro), steps }
}

class Guide {
  readonly #spec: LabSpec
  readonly #solution: LabSolution
  readonly #bench: LabBench
  readonly #source: Awaited<ReturnType<typeof openCluster>>
  readonly #quiet: LiveCluster
  readonly #workedBefore: number
  readonly #began = Date.now()
  readonly #over = new AbortController()
  #terminal: GuideTerminal | undefined
  #state: GuideState
  #latest: Snapshot | undefined
  /** The cluster as it was when the step that is shown began. */
  #before: Snapshot | undefined
  #lent = false
  #saved: Promise<void> = Promise.resolve()

  constructor(
    spec: LabSpec,
    solution: LabSolution,
    bench: LabBench,
    source: Awaited<ReturnType<typeof openCluster>>,
    note: GuideNote | undefined,
  ) {
    this.#spec = spec
    this.#solution = solution
    this.#bench = bench
    this.#source = source
    this.#quiet = source.live.quietly()
    this.#workedBefore = note?.workedMs ?? 0
    const hints = shownHints(spec.lab.number, bench.cluster.name)
    this.#state = startGuide(guideLab(spec, solution, bench), note, hints)
  }

  async run(): Promise<number> {
    const { number, steps } = this.#spec.lab
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
    await this.#saved
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
    if (effect.do === 'save') this.#save()
    if (effect.do === 'hint') rememberHint(this.#spec.lab.number, this.#bench.cluster.name, effect.step, effect.tier)
    if (effect.do === 'play') this.#play(effect.step)
    this.#workOf(effect)?.then(
      (event) => this.#send(event),
      (error) => this.#send({ type: 'trouble', text: sentence(error) }),
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
      const snapshot = await this.#source.snapshot()
      const outcomes = await judgeRound(this.#spec, snapshot, this.#quiet)
      if (this.#lent || this.#over.signal.aborted) return
      this.#latest = snapshot
      this.#before ??= snapshot
      this.#send({ type: 'looked', outcomes })
    } catch (error) {
      if (!this.#over.signal.aborted) this.#send({ type: 'trouble', text: sentence(error) })
    }
  }

  async #check(step: string): Promise<GuideEvent> {
    const { outcomes } = await judge(this.#spec, this.#source, { only: [step] })
    return { type: 'checked', outcome: outcomes[0] ?? noOutcome(step) }
  }

  async #answer(step: string, text: string): Promise<GuideEvent> {
    try {
      await this.#bench.answer(this.#spec.lab.number, step, text)
    } catch (error) {
      return { type: 'panel', title: 'No answer', parts: [{ text: sentence(error) }] }
    }
    return this.#check(step)
  }

  /** The way of a packet to the lab's Service, as `make trace` tells it. */
  async #trace(): Promise<GuideEvent> {
    const items = this.#latest?.items ?? []
    const has = (kind: string, name: string) =>
      items.some((item) => item.kind === kind && item.metadata.namespace === 'default' && item.metadata.name === name)
    const { cluster, variant } = this.#bench
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
    const now = await this.#source.snapshot()
    const parts = diffSnapshots(this.#before ?? now, now)
    return { type: 'panel', title: 'What has changed since this step began', parts }
  }

  /** Has the reference solution solve a step, on the terminal, which shows what it does. */
  async #play(step: string): Promise<void> {
    this.#lent = true
    const definition = findStep(this.#spec.lab, step)
    const work = async () => {
      try {
        await playSteps(this.#spec, this.#solution, this.#bench, this.#source, [definition])
      } catch (error) {
        console.log(sentence(error))
      }
    }
    try {
      await this.#terminal?.lend(work)
    } finally {
      this.#lent = false
    }
  }

  async #finish(): Promise<GuideEvent> {
    const { lab } = this.#spec
    const { driver, name } = this.#bench.cluster
    const request = { lab: lab.number, source: { kind: 'cluster', driver, name } } as const
    const report = await gradeWith(this.#spec, request, () => this.#source)
    const open = report.steps.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable')
    const { shown, held, hints } = this.#state
    const unseen = report.steps.filter(({ id, verdict }) => verdict === 'passed' && !shown.has(id)).map(({ id }) => id)
    const taken = [...hints].map(([id, tiers]) => `${id} ${tiers}`)
    const minutes = Math.max(1, Math.round(this.#workedMs() / 60_000))
    const next = listLabs().find(({ number }) => number > lab.number)
    const lines = [
      `## Lab ${lab.number}: ${open.length === 0 ? 'done' : 'the last step is behind you'}`,
      `**${scoreLine(report)}**`,
      ...(open.length > 0 ? [`Still open: ${open.map(({ id }) => id).join(', ')} (key l goes there).`] : []),
      `Time: ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}.`,
      `Hints: ${taken.length === 0 ? 'none' : taken.join(', ')}.`,
      ...(held.size > 0 ? [`Held already when you came to them: ${[...held].join(', ')}.`] : []),
      `Passed unseen: ${unseen.length === 0 ? 'none' : unseen.join(', ')}.`,
      readLabText(lab.folder).outro.replace(/^## .*$/m, ''),
      '**Next**',
      `Hand in: \`make submit LEARNER=your-name LAB=${lab.number}\``,
      ...(next
        ? [`Read on: labs/${next.folder}/README.md, ${readLab(next.number).title}: \`make lab-${next.number}\``]
        : []),
      `The terms of this lab: labs/GLOSSARY.md. Its slides: \`make present\`.`,
    ]
    return { type: 'finished', summary: lines.map((line) => personalise(line, this.#bench.variant)).join('\n\n') }
  }

  #workedMs(): number {
    return this.#workedBefore + Date.now() - this.#began
  }

  /** Keeps in the cluster where the learner is. One write after the other; a cluster that is gone keeps nothing. */
  #save(): void {
    const { shown, held, passed, view } = this.#state
    const at = view === 'intro' ? '' : stepOf(this.#state).definition.id
    const note: GuideNote = { at, workedMs: this.#workedMs(), shown: [...shown], held: [...held], passed: [...passed] }
    const write = () => writeNotes(this.#bench.client, this.#spec.lab.number, { [NOTE_KEY]: JSON.stringify(note) })
    this.#saved = this.#saved.then(write).catch(() => undefined)
  }
}

const sentence = (error: unknown) =>
  plainText((error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '')

const noOutcome = (id: string): StepOutcome => ({
  id,
  verdict: 'could not check',
  reason: 'the grader did not come to it',
})
