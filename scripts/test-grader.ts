// Mutation testing of the grader. See --help.
import { parseArgs } from 'node:util'
import { labNumber } from '../grading/lab-definition.ts'
import { ExitCode, main } from '../host/main.ts'
import { plainText, shortened } from '../host/plain-text.ts'
import { goodCaptures } from '../instructors/mutation/good-captures.ts'
import { figuresOf, seekFalseAlarms, tryMutations } from '../instructors/mutation/grader-test.ts'
import type { Trial } from '../instructors/mutation/trial.ts'

const USAGE = `Usage: node --import tsx scripts/test-grader.ts [--lab N] [--every N] [--json]

Changes recorded good captures in single places and reports which check fails; then makes meaningless changes and verifies that
none complains.

  --lab N             the captures of one lab
  --every N           only each Nth mutation
`

await main(async () => {
  const { values } = parseArgs({
    options: { lab: { type: 'string' }, every: { type: 'string' }, json: { type: 'boolean' } },
  })
  Error.stackTraceLimit = 0
  const lab = values.lab === undefined ? undefined : labNumber(values.lab)
  const all = await goodCaptures()
  const goods = all.filter(({ spec }) => lab === undefined || spec.lab.number === lab)
  const trials = await tryMutations(goods, { every: Number(values.every ?? 1) }, all)
  const { tried, alarms } = await seekFalseAlarms(goods)
  if (values.json) console.log(JSON.stringify(asJson(trials, tried, alarms.length)))
  else print(trials)
  for (const { good, what, step, said } of alarms)
    console.log(`✗ false alarm: ${good.name}, ${what}: ${step} says ${plainText(said)}`)
  if (!values.json)
    console.log(`False alarms: ${alarms.length} in ${tried} good captures with meaningless differences.`)
  const open = trials.filter(({ end }) => end === 'missed' || end === 'elsewhere')
  return open.length + alarms.length === 0 ? ExitCode.passed : ExitCode.notYet
}, USAGE)

/** Grouped by lab and by the recorded cluster. */
function byPlace(trials: readonly Trial[]): [place: string, trials: Trial[]][] {
  const places = grouped(trials, ({ good: { spec, driver } }) => `lab ${spec.lab.number}, ${driver}`)
  return [...places].sort(([a], [b]) => (a < b ? -1 : 1))
}

function asJson(trials: readonly Trial[], variants: number, falseAlarms: number): object {
  const places = byPlace(trials).map(([place, own]) => [place, figuresOf(own)])
  return { ...figuresOf(trials), places: Object.fromEntries(places), variants, falseAlarms }
}

function print(trials: readonly Trial[]): void {
  for (const { good, end, mutation, steps } of trials)
    if (end === 'missed' || end === 'elsewhere')
      console.log(
        `✗ ${end}: ${good.name}: ${mutation.operator}, ${mutation.place} (${shortened(mutation.detail, 90)})${steps.length > 0 ? `, failing: ${steps.join(', ')}` : ''}`,
      )
  const cell = (value: string | number) => String(value).padStart(10)
  console.log([''.padEnd(20), ...['captures', 'tried', 'caught', 'reasoned', 'missed', 'score'].map(cell)].join(''))
  for (const [place, own] of byPlace(trials)) {
    const { tried, caught, harmless, missed, elsewhere, score } = figuresOf(own)
    const captures = new Set(own.map(({ good }) => good.name)).size
    const cells = [captures, tried, caught, harmless, missed + elsewhere, `${(100 * score).toFixed(1)} %`].map(cell)
    console.log([place.padEnd(20), ...cells].join(''))
  }
  console.log('')
  for (const [operator, own] of [...grouped(trials, ({ mutation }) => mutation.operator)].sort(([a], [b]) =>
    a < b ? -1 : 1,
  )) {
    const { tried, caught, harmless } = figuresOf(own)
    console.log(
      `${operator.padEnd(24)} ${String(caught).padStart(5)} caught, ${String(harmless).padStart(5)} harmless, of ${tried}`,
    )
  }
  console.log('\nWhy no claim depends on the harmless ones:')
  for (const [reason, own] of grouped(
    trials.filter(({ end }) => end === 'harmless'),
    (trial) => trial.reason ?? '',
  ))
    console.log(`${String(own.length).padStart(6)}  ${reason}`)
  const { tried, caught, harmless, score } = figuresOf(trials)
  console.log(
    `\nMutation score: ${(100 * score).toFixed(1)} % (${caught} of ${tried - harmless} that a claim depends on; ${tried} tried)`,
  )
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}
