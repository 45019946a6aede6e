// Learners who are not there: their facts are those of recorded labs, judged capture by capture as
// a guide would have done.

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parsePacket } from '../dataplane/trace.ts'
import { loadSpec } from '../grading/grader.ts'
import { judgeRound } from '../grading/judge.ts'
import { readLab } from '../grading/lab-definition.ts'
import { objectsOf, Snapshot } from '../grading/snapshot.ts'
import { readSubmission } from '../instructors/submission/read-submission.ts'
import { stepFactOf } from '../room/learner/learner-facts.ts'
import { Outbox } from '../room/learner/outbox.ts'
import { RoomLink } from '../room/learner/room-link.ts'
import { shownPathOn } from '../room/learner/shown-path.ts'
import type { LearnerFact, ShownPath, StepFact } from '../room/protocol.ts'

/**
 * A recorded lab: the facts about its steps at each of its captures, in the order in which they
 * were taken.
 */
export interface RecordedLab {
  lab: number
  rounds: StepFact[][]
  /** The path of a packet from a worker to the lab's Service, at the last capture. */
  path: ShownPath | { trouble: string }
}

/** Judges every capture of a solved lab. */
export async function recordLab(file: string): Promise<RecordedLab> {
  const { manifest, captures } = await readSubmission(file)
  const lab = readLab(manifest.lab)
  const spec = await loadSpec(lab)
  const inOrder = [...captures.values()].sort((one, other) => one.takenAt - other.takenAt)
  const rounds: StepFact[][] = []
  for (const { capture } of inOrder) {
    const outcomes = await judgeRound(spec, new Snapshot(capture), undefined)
    rounds.push(
      lab.steps.flatMap((step) => {
        const outcome = outcomes.find(({ id }) => id === step.id)
        return outcome ? [stepFactOf(lab.number, step, outcome, 0)] : []
      }),
    )
  }
  const last = inOrder.at(-1)
  const path = last ? pathIn(new Snapshot(last.capture)) : { trouble: 'no capture' }
  return { lab: lab.number, rounds, path }
}

function pathIn(snapshot: Snapshot): RecordedLab['path'] {
  const { services, nodes } = objectsOf(snapshot)
  const web = services.find(({ name }) => name === 'web') ?? services[0]
  const worker = nodes.find(({ name }) => name.endsWith('-worker'))?.name
  const [address] = web?.clusterIPs ?? []
  if (worker === undefined || address === undefined) return { trouble: 'no Service' }
  return shownPathOn(snapshot, worker, parsePacket('host', `${address}:${web?.ports[0]?.port}`))
}

/** One learner with a connection and an outbox of its own. */
export class SimulatedLearner {
  readonly name: string
  readonly link: RoomLink
  readonly outbox: Outbox
  readonly #folder = mkdtempSync(join(tmpdir(), 'learner-'))
  readonly #lab: RecordedLab
  round = 0
  #extra = 0
  /** The polls that are open. */
  polls: string[] = []

  constructor(word: string, name: string, lab: RecordedLab) {
    this.name = name
    this.#lab = lab
    this.outbox = new Outbox(this.#folder)
    const member = { word, name, learner: randomBytes(16).toString('hex') }
    this.outbox.put({ kind: 'name', name })
    this.link = new RoomLink(member, this.outbox, {
      onMessage: ({ look, notices }) => {
        if (look) this.link.send({ path: lab.path })
        if (notices) this.polls = notices.filter(({ kind }) => kind === 'poll').map(({ id }) => id)
      },
      onState: () => undefined,
      onSent: () => undefined,
    })
  }

  /** Sends facts. */
  tell(...facts: LearnerFact[]): void {
    for (const fact of facts) this.outbox.put(fact)
    this.link.flush()
  }

  /**
   * Goes to a round of the recording: its facts, and the first open step as the place, since
   * `minutes` minutes.
   */
  go(round: number, minutes = 0): void {
    this.round = Math.min(round, this.#lab.rounds.length - 1)
    const facts = this.#lab.rounds[this.round] ?? []
    const open = facts.find(({ verdict }) => verdict === 'failed' || verdict === 'not yet')
    const since = Date.now() - Math.round(minutes * 60_000)
    const { lab } = this.#lab
    this.tell(...facts, { kind: 'place', lab, step: open?.step ?? 'end', since })
  }

  /** The points of the present facts. */
  get points(): number {
    return this.#facts().reduce((sum, { points }) => sum + points, 0) + this.#extra
  }

  /** Sends another verdict: the points of the first step change by one. */
  toggle(): void {
    const [first] = this.#facts()
    if (!first) return
    this.#extra = this.#extra === 0 ? 1 : 0
    this.tell({ ...first, points: first.points + this.#extra })
  }

  #facts(): readonly StepFact[] {
    return this.#lab.rounds[this.round] ?? []
  }

  end(): void {
    this.link.end()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
