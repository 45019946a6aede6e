// Mutation testing of the grader: mutations of good captures that no step catches, false alarms,
// and the figures of both.

import { groupBy } from '../../dataplane/collections.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import { judgeRound } from '../../grading/judge.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { type AnswerTrial, isMisjudged } from './answer-trials.ts'
import { EquivalentMutants } from './equivalent-mutants.ts'
import { type GoodCapture, nodesToBreak } from './good-captures.ts'
import { mutationsOf } from './mutations.ts'
import { noise } from './noise.ts'
import { underVersion } from './other-version.ts'
import { type Trial, tryMutation } from './trial.ts'

/** Versions of kube-proxy whose rules differ from each other somewhere. */
const OTHER_VERSIONS = [20, ...Array.from({ length: 14 }, (_, index) => 23 + index)].map(
  (minor) => `v1.${minor}.0`,
)

/** A false alarm: a step no longer passes after a harmless change of the capture. */
interface FalseAlarm {
  good: GoodCapture
  what: string
  step: string
  reported: string
}

interface AlarmTest {
  tried: number
  alarms: FalseAlarm[]
}

/**
 * Which mutations are tried: one in `every`, starting with `first`; optionally of one operator
 * only.
 */
interface MutationSelection {
  every?: number
  first?: number
  operator?: string
  /** Is told each capture before its changes are tried. */
  begins?: (good: GoodCapture) => void
}

/** Tries the single mutations of each capture; `all` are those that one may be compared with. */
export async function tryMutations(
  goods: readonly GoodCapture[],
  { every = 1, first = 0, operator, begins }: MutationSelection = {},
  all: readonly GoodCapture[] = goods,
): Promise<Trial[]> {
  const trials: Trial[] = []
  const equivalentMutants = new EquivalentMutants(all)
  for (const good of goods) {
    begins?.(good)
    let index = first
    for (const mutation of mutationsOf(good.capture, nodesToBreak(good)))
      if ((operator === undefined || mutation.operator === operator) && index++ % every === 0)
        trials.push(await tryMutation(good, mutation, equivalentMutants))
  }
  return trials
}

/** Of the random numbers for meaningless changes. */
const SEED = 1

/** Judges good captures after meaningless changes, and under every version of kube-proxy. */
export async function seekFalseAlarms(
  goods: readonly GoodCapture[],
  { every = 1, first = 0, begins }: MutationSelection = {},
): Promise<AlarmTest> {
  const alarms: FalseAlarm[] = []
  let tried = 0
  let index = first
  for (const good of goods) {
    begins?.(good)
    const { steps: all } = good.spec.lab
    const ofThatTime = new Set(
      all.filter(({ moment, question }) => moment || question).map(({ id }) => id),
    )
    const lasting = good.passing.filter((id) => !ofThatTime.has(id))
    const variants = [
      ...noise(SEED).map(({ what, apply }) => ({
        what,
        made: () => apply(good.capture),
        steps: good.passing,
      })),
      // The notes of a moment and the answers to questions belong to the recorded version.
      ...OTHER_VERSIONS.filter((version) => hasModesOf(good, version)).map((version) => ({
        what: `kube-proxy ${version}`,
        made: () => underVersion(good, version),
        steps: lasting.filter((id) => isFor(version, good.spec.lab.number, id)),
      })),
    ]
    for (const { what, made, steps } of variants) {
      if (index++ % every !== 0) continue
      tried++
      const snapshot = new Snapshot(made(), good.snapshot)
      for (const { id, verdict, reason, failure } of await judgeRound(
        good.spec,
        snapshot,
        undefined,
        steps,
        good.asks,
      ))
        if (verdict !== 'passed')
          alarms.push({ good, what, step: id, reported: failure?.actual ?? reason ?? verdict })
    }
  }
  return { tried, alarms }
}

/**
 * Lab 5 ends with a kube-proxy that has a filter of its own, which came with 1.26; lab 9 may
 * compare with nftables mode (1.30).
 */
const SINCE: Record<string, number> = { '5/access-filter': 26, '5/whole': 26, '9/mend': 30 }

/**
 * Whether a capture could be one of another version. `underVersion` writes no rules of nftables
 * mode, so both versions must program the same there; userspace mode is in none that it writes.
 */
const hasModesOf = ({ snapshot }: GoodCapture, version: string): boolean =>
  snapshot.nodes.every(
    ({ mode, kubeProxyVersion: recorded }) =>
      mode !== 'nftables' ||
      (typeof recorded === 'string' && nftFeatures(recorded) === nftFeatures(version)),
  )

/** What a version does in nftables mode, as text. */
const nftFeatures = (version: string): string =>
  JSON.stringify(Object.entries(featuresOf(version)).filter(([name]) => name.startsWith('nft')))

const isFor = (version: string, lab: number, step: string) =>
  Number(version.split('.')[1]) >= (SINCE[`${lab}/${step}`] ?? 0)

/** Whether a change was not caught by a step about its place, and no reason is known. */
export const isOpen = ({ end }: Trial): boolean => end === 'missed' || end === 'elsewhere'

/**
 * Figures of a list of trials. `score` is the share of mutations that some claim depends on and a
 * step about it caught.
 */
export function figuresOf(trials: readonly Trial[]) {
  const ends = { caught: 0, elsewhere: 0, missed: 0, harmless: 0 }
  for (const { end } of trials) ends[end]++
  const asked = trials.length - ends.harmless
  return { tried: trials.length, ...ends, score: asked === 0 ? 1 : ends.caught / asked }
}

/** The trials by lab and kind of cluster, in the order of their names. */
const byPlace = (trials: readonly Trial[]): Map<string, Trial[]> =>
  new Map(
    [
      ...groupBy(trials, ({ good: { spec, driver } }) => `lab ${spec.lab.number}, ${driver}`),
    ].sort(),
  )

/** The figures of a whole run, for --json. */
export function graderTestSummary(
  trials: readonly Trial[],
  { tried, alarms }: AlarmTest,
  answers: readonly AnswerTrial[],
): object {
  const places = [...byPlace(trials)].map(([place, own]) => [place, figuresOf(own)])
  return {
    ...figuresOf(trials),
    places: Object.fromEntries(places),
    variants: tried,
    falseAlarms: alarms.length,
    answers: answers.length,
    misjudgedAnswers: answers.filter(isMisjudged).length,
  }
}

/**
 * A whole run for people: every undetected change, the figures, the reasons of harmless changes,
 * and every false alarm.
 */
export function graderTestLines(trials: readonly Trial[], { tried, alarms }: AlarmTest): string[] {
  const open = trials.filter(isOpen)
  const harmless = trials.filter(({ end }) => end === 'harmless')
  const row = (name: string, cells: readonly (string | number)[]) =>
    name.padEnd(20) + cells.map((cell) => String(cell).padStart(10)).join('')
  const figures = figuresOf(trials)
  const percent = (score: number) => `${(100 * score).toFixed(1)} %`
  return [
    ...open.map(({ good, end, mutation: { operator, place, detail }, steps }) => {
      const failing = steps.length > 0 ? `, failing: ${steps.join(', ')}` : ''
      return `✗ ${end}: ${good.name}: ${operator}, ${place} (${shortened(detail, 90)})${failing}`
    }),
    row('', ['captures', 'tried', 'caught', 'reasoned', 'missed', 'score']),
    ...[...byPlace(trials)].map(([place, own]) => {
      const { tried, caught, harmless, missed, elsewhere, score } = figuresOf(own)
      const captures = new Set(own.map(({ good }) => good.name)).size
      return row(place, [captures, tried, caught, harmless, missed + elsewhere, percent(score)])
    }),
    '\nWhy no claim depends on the harmless ones:',
    ...[...groupBy(harmless, ({ reason = '' }) => reason)].map(
      ([reason, own]) => `${String(own.length).padStart(6)}  ${reason}`,
    ),
    `\nMutation score: ${percent(figures.score)} (${figures.caught} of ${figures.tried - figures.harmless} that a claim depends on; ${figures.tried} tried)`,
    ...alarms.map(
      ({ good, what, step, reported }) =>
        `✗ false alarm: ${good.name}, ${what}: ${step} says ${plainText(reported)}`,
    ),
    `False alarms: ${alarms.length} in ${tried} good captures with meaningless differences.`,
  ]
}
