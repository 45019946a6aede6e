// The state behind the page: one lab on one cluster, kept in the server so that all pages show the same.

import type { WebSocket } from 'ws'
import { type Cluster, notUp } from '../../cluster/driver.ts'
import { openNext, takeHint } from '../../course/incident/open.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import {
  applyCheck,
  applyObservation,
  idOf,
  type LabProgress,
  showStep,
  startProgress,
} from '../../course/lab-progress.ts'
import { LabSession, sentenceOf } from '../../course/lab-session.ts'
import { resetLab } from '../../course/lab-solution.ts'
import { learnerName } from '../../grading/class-key.ts'
import { findStep, type LabDefinition, labFolder, mustRunHere, readLab } from '../../grading/lab-definition.ts'
import { scoreLine } from '../../grading/learner-report.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { hasOutside, OUTSIDE } from '../../host/outside.ts'
import { plainText } from '../../host/plain-text.ts'
import type { Progress } from '../../host/progress.ts'
import { handIn } from '../../instructors/submission/hand-in.ts'
import type { ActionArguments, ActionName, ActionReplies, Block, LabContent } from '../protocol.ts'
import { DataplaneView } from './dataplane-view.ts'
import { Hub } from './hub.ts'
import { blocksOf, IncidentView, labContent, progressPush } from './lab-view.ts'
import { findPaths } from './packet-paths.ts'
import type { Guide } from './server.ts'
import { shellAt } from './shell-command.ts'
import { HOST, Terminals } from './terminals.ts'
import { type Observed, Watch } from './watch.ts'

type Reply<Name extends ActionName> = Name extends keyof ActionReplies ? ActionReplies[Name] : object
type Actions = { [Name in ActionName]: (words: ActionArguments<Name>) => Promise<Reply<Name>> | Reply<Name> }

/** The lab that all pages show. */
interface OpenLab {
  session: LabSession
  progress: LabProgress
  /** Before the first step, at a step, or after the last. */
  place: 'intro' | 'step' | 'end'
  /** The places of terminals. */
  places: string[]
  summary?: Block[]
}

/** Opens a lab at the step where the learner left it, or in its starting state. */
async function openLab(cluster: Cluster, definition: LabDefinition, shown: Progress): Promise<OpenLab> {
  const session = await LabSession.open(definition, cluster, shown)
  const { place, ...progress } = startProgress(session.lab, session.note, session.hints)
  const places = [HOST, ...(await cluster.nodes()), ...(hasOutside(cluster) ? [OUTSIDE] : [])]
  return { session, progress, place, places }
}

export class PageGuide implements Guide {
  readonly #cluster: Cluster
  readonly #hub: Hub
  readonly #terminals: Terminals
  readonly #watch: Watch
  readonly #dataplane: DataplaneView
  readonly #incidents = new IncidentView()
  readonly #printed: Progress
  #lab: OpenLab
  #busy: string | undefined
  #trouble: string | undefined

  private constructor(cluster: Cluster, lab: OpenLab, printed: Progress, kubectlFolder: string) {
    this.#cluster = cluster
    this.#lab = lab
    this.#printed = printed
    this.#dataplane = new DataplaneView(cluster)
    this.#watch = new Watch(cluster, () => this.#look())
    this.#hub = new Hub((pages) => this.#watch.setWatched(pages > 0))
    this.#terminals = new Terminals(
      (place) => shellAt(cluster, place, kubectlFolder),
      (push) => this.#hub.push(push),
      (command) => {
        if (command !== undefined) this.#dataplane.typed(command)
        this.#watch.sign()
      },
    )
  }

  /** Opens a lab of a running cluster. */
  static async open(
    cluster: Cluster,
    definition: LabDefinition,
    printed: Progress,
    kubectlFolder: string,
  ): Promise<PageGuide> {
    const guide = new PageGuide(cluster, await openLab(cluster, definition, printed), printed, kubectlFolder)
    guide.#tell()
    await guide.#terminals.announce()
    void guide.#watch.run()
    return guide
  }

  lab(): LabContent {
    return labContent(this.#lab.session.lab, this.#lab.places)
  }

  async act(name: ActionName, words: unknown): Promise<object> {
    // The server has checked the words by the schema of this name.
    const action = this.#actions[name] as (words: unknown) => Promise<object> | object
    return action(words)
  }

  join(page: WebSocket): void {
    this.#hub.join(page)
  }

  attach(terminal: string, page: WebSocket): boolean {
    return this.#terminals.attach(terminal, page)
  }

  /** Keeps the progress and ends every terminal. */
  async end(): Promise<void> {
    this.#watch.end()
    this.#hub.end()
    this.#save()
    await Promise.all([this.#terminals.end(), this.#lab.session.saved()])
  }

  readonly #actions: Actions = {
    go: ({ to }) => this.#go(to),
    check: ({ step }) => {
      findStep(this.#definition, step)
      return this.#doing('Checking', async () => ({ verdict: await this.#check(step) }))
    },
    answer: ({ step, text }) =>
      this.#doing('Checking the answer', async (lab) => {
        await lab.session.answer(step, text)
        return { verdict: await this.#check(step) }
      }),
    hint: ({ step }) => this.#hint(step),
    solve: ({ step }) =>
      this.#doing(`Solving step "${step}"`, async (lab) => {
        for (const outcome of await lab.session.play(step)) lab.progress = applyCheck(lab.progress, outcome)
        return {}
      }),
    pause: ({ paused }) => {
      this.#lab.session.pause(paused)
      this.#save()
      this.#tell()
      return {}
    },
    reset: () =>
      this.#doing(`Resetting lab ${this.#definition.number}`, async ({ session }) => {
        await resetLab(this.#definition, session.bench)
        await this.#open(this.#definition)
        return {}
      }),
    lab: ({ number }) => {
      labFolder(number)
      const definition = readLab(number)
      return this.#doing(`Opening lab ${number}`, async ({ session }) => {
        await mustRunHere(this.#cluster, definition)
        this.#save()
        await session.saved()
        await this.#open(definition)
        return {}
      })
    },
    submit: ({ learner }) =>
      this.#doing('Writing the submission', async () => {
        const { file, report, notes } = await handIn(this.#cluster, this.#definition, learnerName(learner))
        return { file, score: [`${scoreLine(report)}.`, ...notes].join(' ') }
      }),
    moment: ({ moment }) => {
      const { nodes, changes } = this.#dataplane.moment(moment)
      return { nodes, changes }
    },
    incident: ({ action, seed }) => this.#incident(action, seed),
    'open-terminal': async ({ place }) => {
      const { places } = this.#lab
      if (!places.includes(place))
        throw new Error(`There is no place "${place}" for a terminal: there are ${places.join(', ')}.`)
      return { id: await this.#terminals.open(place) }
    },
    'close-terminal': ({ id }) => {
      this.#terminals.close(id)
      return {}
    },
    path: (asked) => {
      const { live } = this.#lab.session.source
      const { snapshot } = this.#dataplane
      if (!snapshot) throw new Error('The nodes are still being read: ask again in a moment.')
      const find = () => findPaths(live, snapshot, asked)
      return asked.send ? this.#doing('Sending packets', find) : find()
    },
  }

  get #definition(): LabDefinition {
    return this.#lab.session.lab.definition
  }

  async #open(definition: LabDefinition): Promise<void> {
    this.#lab = await openLab(this.#cluster, definition, this.#busyProgress())
    this.#trouble = undefined
    this.#tell()
    this.#watch.sign()
  }

  async #go(to: string): Promise<object> {
    if (to === 'end')
      return this.#doing('Grading every step', async (lab) => {
        lab.summary = blocksOf(await lab.session.finish(lab.progress))
        lab.place = 'end'
        return {}
      })
    const lab = this.#lab
    if (to === 'intro') lab.place = 'intro'
    else {
      const step = findStep(this.#definition, to)
      lab.place = 'step'
      lab.progress = showStep(lab.progress, this.#definition.steps.indexOf(step))
    }
    this.#save()
    this.#tell()
    this.#watch.sign()
    return {}
  }

  /** Starts an incident of lab 8, which is opened for it; gives the next hint; or has the reference solution end it. */
  async #incident(action: ActionArguments<'incident'>['action'], seed: string | undefined): Promise<object> {
    const busy = { open: 'Starting an incident', hint: 'Taking a hint', 'give up': 'Solving the incident' }[action]
    return this.#doing(busy, async () => {
      if (this.#definition.number !== INCIDENT_LAB) await this.#open(readLab(INCIDENT_LAB))
      const { session } = this.#lab
      if (action === 'hint') await takeHint(session.bench)
      if (action === 'give up')
        for (const { definition } of session.lab.steps.slice(0, 2)) await session.play(definition.id)
      if (action === 'open') {
        const onHealthy = (healthy: Snapshot) => this.#incidents.healthy(this.#dataplane.read(healthy))
        await openNext(session.bench, { seed, onHealthy })
        // The answers and verdicts of the previous incident were deleted with its notes.
        this.#lab.progress = startProgress(session.lab, undefined, new Map())
        this.#save()
        await this.#show(await session.source.snapshot(), [])
      }
      return {}
    })
  }

  async #check(step: string) {
    const lab = this.#lab
    const outcome = await lab.session.check(step)
    lab.progress = applyCheck(lab.progress, outcome)
    this.#save()
    return outcome.verdict
  }

  #hint(step: string): object {
    const { session, progress } = this.#lab
    const { hints } = findStep(this.#definition, step)
    const tier = (progress.hints.get(step) ?? 0) + 1
    if (tier > hints.length) throw new Error(`Step "${step}" has no more hints: the solution is next.`)
    session.rememberHint(step, tier)
    this.#lab.progress = { ...progress, hints: new Map(progress.hints).set(step, tier) }
    this.#tell()
    return {}
  }

  /** Reads the nodes once and pushes the changes, or why they could not be read. */
  async #look(): Promise<Observed> {
    let observed: Observed = 'unread'
    try {
      if (this.#busy !== undefined) return 'unchanged'
      if (this.#trouble !== undefined) await this.#reopen()
      const lab = this.#lab
      const { outcomes, snapshot } = await lab.session.observe()
      // State that was read during a solution or a reset is outdated.
      if (this.#busy !== undefined || lab !== this.#lab) return 'unchanged'
      const { progress, fresh } = applyObservation(lab.progress, outcomes, lab.place === 'step')
      lab.progress = progress
      this.#trouble = undefined
      if (fresh.length > 0) this.#save()
      this.#tell()
      await this.#dataplane.readConnections(snapshot)
      observed = await this.#show(snapshot, fresh)
    } catch (error) {
      const runs = await this.#cluster.running().catch(() => false)
      this.#trouble = runs ? sentenceOf(error) : notUp(this.#cluster).message
    }
    this.#tell()
    return observed
  }

  /** Pushes the changes of the nodes' state. `passed`: steps that have just passed. */
  async #show(snapshot: Snapshot, passed: readonly string[]): Promise<Observed> {
    const { moment, counters, latest } = this.#dataplane.see(snapshot)
    // Before the moment, whose counters would hide by how much they moved.
    if (counters) this.#hub.pass(counters)
    if (moment) for (const push of moment) this.#hub.push(push)
    else this.#hub.keep(latest)
    if (passed.length > 0) this.#hub.push(this.#dataplane.passed(passed))
    this.#hub.push(await this.#incidents.see(snapshot, latest.nodes))
    return moment || passed.length > 0 ? 'changed' : 'unchanged'
  }

  /** Opens the lab again after a failure, because a cluster that was restarted may be a new one. */
  async #reopen(): Promise<void> {
    if (!(await this.#cluster.running())) throw notUp(this.#cluster)
    await this.#open(this.#definition)
  }

  /** Runs long work, one at a time; its name is shown on all pages. */
  async #doing<T>(busy: string, work: (lab: OpenLab) => Promise<T>): Promise<T> {
    if (this.#busy !== undefined) throw new Error(`Wait until this is done: ${this.#busy}.`)
    this.#setBusy(busy)
    try {
      return await work(this.#lab)
    } catch (error) {
      throw new Error(sentenceOf(error))
    } finally {
      this.#setBusy(undefined)
      this.#watch.sign()
    }
  }

  #setBusy(busy: string | undefined): void {
    this.#busy = busy
    this.#tell()
  }

  /** Shows progress lines of long work also on the pages. */
  #busyProgress(): Progress {
    const shown = this.#busy
    const show = (what: string | undefined) => {
      if (shown !== undefined) this.#setBusy(what ?? shown)
    }
    return {
      start: (what) => {
        this.#printed.start(what)
        show(plainText(what))
      },
      end: (ok, detail) => {
        this.#printed.end(ok, detail)
        show(undefined)
      },
      note: (line) => this.#printed.note(line),
    }
  }

  #save(): void {
    const { session, progress, place } = this.#lab
    session.save(progress, place !== 'intro')
  }

  #tell(): void {
    const { session, progress, place, summary } = this.#lab
    this.#hub.push(
      progressPush(progress, {
        at: place === 'step' ? idOf(progress) : place,
        workedMs: session.workedMs(),
        paused: session.paused,
        busy: this.#busy,
        trouble: this.#trouble,
        summary: place === 'end' ? summary : undefined,
      }),
    )
  }
}
