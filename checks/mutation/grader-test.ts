import { judgeRound } from '../judge.ts'
import { Snapshot } from '../snapshot.ts'
import { mutationsOf } from './all-mutations.ts'
import { disturbances } from './disturbances.ts'
import type { GoodCapture } from './good-captures.ts'
import type { Mutation } from './mutation.ts'
import { underOtherVersions } from './other-versions.ts'
import { type Trial, tryMutation } from './trial.ts'

/** A good capture on which a step does not pass any more, though nothing is wrong with it. */
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

/** Tries single mutations: of each capture one in `every`, and always the first. */
export async function tryMutations(goods: readonly GoodCapture[], every = 1): Promise<Trial[]> {
  const trials: Trial[] = []
  for (const good of goods) {
    const mutations = [...mutationsOf(good.capture, busiestNode(good))]
    for (const mutation of evenly(mutations, every)) trials.push(await tryMutation(good, mutation))
  }
  return trials
}

const evenly = (mutations: readonly Mutation[], every: number) => mutations.filter((_, index) => index % every === 0)

/** The node of the learner's client Pod, from which packets are walked; else the last, a worker. */
function busiestNode({ capture }: GoodCapture): string {
  const client = new Snapshot(capture).find('Pod', 'default', 'client')?.spec?.nodeName
  return client ?? capture.nodes.at(-1)?.name ?? ''
}

/** Judges good captures after changes that mean nothing, and under every version of kube-proxy. */
export async function seekFalseAlarms(goods: readonly GoodCapture[], seed = 1): Promise<AlarmTest> {
  const alarms: FalseAlarm[] = []
  let tried = 0
  for (const good of goods) {
    const moments = new Set(good.spec.lab.steps.filter(({ moment }) => moment).map(({ id }) => id))
    const lasting = good.passing.filter((id) => !moments.has(id))
    const variants = [
      ...disturbances(seed).map(({ what, apply }) => ({ what, capture: apply(good.capture), steps: good.passing })),
      // The notes of a moment are of the version that was there at the moment.
      ...underOtherVersions(good.capture).map(([version, capture]) => ({
        what: `kube-proxy ${version}`,
        capture,
        steps: lasting,
      })),
    ]
    for (const { what, capture, steps } of variants) {
      tried++
      for (const { id, verdict, reason, failure } of await judgeRound(
        good.spec,
        new Snapshot(capture),
        undefined,
        steps,
      ))
        if (verdict === 'failed' || verdict === 'could not check')
          alarms.push({ good, what, step: id, said: failure?.actual ?? reason ?? verdict })
    }
  }
  return { tried, alarms }
}

/** Figures of a list of trials. `score` is the share of mutations that some claim depends on and a step about it caught. */
export function figuresOf(trials: readonly Trial[]) {
  const count = (end: Trial['end']) => trials.filter((trial) => trial.end === end).length
  const ends = {
    caught: count('caught'),
    elsewhere: count('elsewhere'),
    missed: count('missed'),
    indifferent: count('indifferent'),
  }
  const asked = trials.length - ends.indifferent
  return { tried: trials.length, ...ends, score: asked === 0 ? 1 : ends.caught / asked }
}
