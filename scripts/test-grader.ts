// Mutation testing of the grader. See --help.
import { parseArgs } from 'node:util'
import { goodCaptures } from '../checks/mutation/good-captures.ts'
import { figuresOf, seekFalseAlarms, tryMutations } from '../checks/mutation/grader-test.ts'
import type { Trial } from '../checks/mutation/trial.ts'
import { plainText, shortened } from '../checks/plain-text.ts'
import { labNumber } from './grading.ts'
import { ExitCode, main } from './main.ts'

const USAGE = `Usage: node --import tsx scripts/test-grader.ts [--lab N] [--every N] [--json]

Breaks recorded good captures in single places and sees which check notices; then changes what means nothing and sees that
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
  const goods = (await goodCaptures()).filter(({ spec }) => lab === undefined || spec.lab.number === lab)
  const trials = await tryMutations(goods, Number(values.every ?? 1))
  const { tried, alarms } = await seekFalseAlarms(goods)
  if (values.json) console.log(JSON.stringify({ ...figuresOf(trials), variants: tried, falseAlarms: alarms.length }))
  else print(trials)
  for (const { good, what, step, said } of alarms)
    console.log(`✗ false alarm: ${good.name}, ${what}: ${step} says ${plainText(said)}`)
  if (!values.json)
    console.log(`False alarms: ${alarms.length} in ${tried} good captures that differ in what means nothing.`)
  const open = trials.filter(({ end }) => end === 'missed' || end === 'elsewhere')
  return open.length + alarms.length === 0 ? ExitCode.passed : ExitCode.notYet
}, USAGE)

function print(trials: readonly Trial[]): void {
  for (const [name, own] of grouped(trials, ({ good }) => good.name)) {
    const { tried, caught, indifferent, missed, elsewhere } = figuresOf(own)
    console.log(
      `${name}: ${caught} of ${tried} caught, ${indifferent} that no claim depends on, ${missed} missed, ${elsewhere} caught elsewhere`,
    )
    for (const { end, mutation, steps } of own)
      if (end === 'missed' || end === 'elsewhere')
        console.log(
          `  ✗ ${end}: ${mutation.operator}, ${mutation.place} (${shortened(mutation.detail, 90)})${steps.length > 0 ? `, failing: ${steps.join(', ')}` : ''}`,
        )
  }
  console.log('')
  for (const [operator, own] of [...grouped(trials, ({ mutation }) => mutation.operator)].sort(([a], [b]) =>
    a < b ? -1 : 1,
  )) {
    const { tried, caught, indifferent } = figuresOf(own)
    console.log(
      `${operator.padEnd(24)} ${String(caught).padStart(5)} caught, ${String(indifferent).padStart(5)} indifferent, of ${tried}`,
    )
  }
  console.log('\nWhy no claim depends on the indifferent ones:')
  for (const [reason, own] of grouped(
    trials.filter(({ end }) => end === 'indifferent'),
    (trial) => trial.reason ?? '',
  ))
    console.log(`${String(own.length).padStart(6)}  ${reason}`)
  const { tried, caught, indifferent, score } = figuresOf(trials)
  console.log(
    `\nMutation score: ${(100 * score).toFixed(1)} % (${caught} of ${tried - indifferent} that a claim depends on; ${tried} tried)`,
  )
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}
