import { judgeRound } from '../../grading/judge.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { mutationsOf } from './all-mutations.ts'
import { EquivalentMutants } from './equivalent-mutants.ts'
import { type GoodCapture, nodesToBreak } from './good-captures.ts'
import { noise } from './noise.ts'
import { OTHER_VERSIONS, underVersion } from './other-versions.ts'
import { type Trial, tryMutation } from './trial.ts'

/** A false alarm: a step no longer passes on a capture that was only changed harmlessly. */
export interface FalseAlarm {
  good: GoodCapture
  what: string
  step: string
  said: string
}

export interface AlarmTest {
  tried: number
  alarms: FalseAlarm[]
}

/** Which mutations are tried: one in `every`, counted from `first`; of one operator alone where it is named. */
export interface Choice {
  every?: number
  first?: number
  operator?: string
}

/** Tries the single mutations of each capture; `all` are those that one may be compared with. */
export async function tryMutations(
  goods: readonly GoodCapture[],
  { every = 1, first = 0, operator }: Choice = {},
  all: readonly GoodCapture[] = goods,
): Promise<Trial[]> {
  const trials: Trial[] = []
  const equivalentMutants = new EquivalentMutants(all)
  for (const good of goods) {
    let index = first
    for (const mutation of mutationsOf(good.capture, nodesToBreak(good)))
      if ((operator === undefined || mutation.operator === operator) && index++ % every === 0)
        trials.push(await tryMutation(good, mutation, equivalentMutants))
  }
  return trials
}

/** Judges good captures after changes that mean nothing, and under every version of kube-proxy. */
export async function seekFalseAlarms(
  goods: readonly GoodCapture[],
  { seed = 1, every = 1, first = 0 }: { seed?: number; every?: number; first?: number } = {},
): Promise<AlarmTest> {
  const alarms: FalseAlarm[] = []
  let tried = 0
  let index = first
  for (const good of goods) {
    const { steps: all } = good.spec.lab
    const ofThatTime = new Set(all.filter(({ moment, question }) => moment || question).map(({ id }) => id))
    const lasting = good.passing.filter((id) => !ofThatTime.has(id))
    const variants = [
      ...noise(seed).map(({ what, apply }) => ({ what, made: () => apply(good.capture), steps: good.passing })),
      // The notes of a moment, and what was answered to a question, are of the version that was there.
      ...OTHER_VERSIONS.map((version) => ({
        what: `kube-proxy ${version}`,
        made: () => underVersion(good.capture, version),
        steps: lasting.filter((id) => isFor(version, good.spec.lab.number, id)),
      })),
    ]
    for (const { what, made, steps } of variants) {
      if (index++ % every !== 0) continue
      tried++
      for (const { id, verdict, reason, failure } of await judgeRound(
        good.spec,
        new Snapshot(made()),
        undefined,
        steps,
      ))
        if (verdict !== 'passed') alarms.push({ good, what, step: id, said: failure?.actual ?? reason ?? verdict })
    }
  }
  return { tried, alarms }
}

/** Lab 5 ends with a kube-proxy that has a filter of its own, which came with 1.26. */
const SINCE: Record<string, number> = { '5/access-filter': 26, '5/whole': 26 }

const isFor = (version: string, lab: number, step: string) =>
  Number(version.split('.')[1]) >= (SINCE[`${lab}/${step}`] ?? 0)

/** Figures of a list of trials. `score` is the share of mutations that some claim depends on and a step about it caught. */
export function figuresOf(trials: readonly Trial[]) {
  const count = (end: Trial['end']) => trials.filter((trial) => trial.end === end).length
  const ends = {
    caught: count('caught'),
    elsewhere: count('elsewhere'),
    missed: count('missed'),
    harmless: count('harmless'),
  }
  const asked = trials.length - ends.harmless
  return { tried: trials.length, ...ends, score: asked === 0 ? 1 : ends.caught / asked }
}
