// Mutation testing of the grader. See --help.
import { parseArgs } from 'node:util'
import { labNumber } from '../grading/lab-definition.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { answerTrialLines, isMisjudged, tryAnswers } from '../instructors/mutation/answer-trials.ts'
import { goodCaptures } from '../instructors/mutation/good-captures.ts'
import {
  graderTestLines,
  graderTestSummary,
  isOpen,
  seekFalseAlarms,
  tryMutations,
} from '../instructors/mutation/grader-test.ts'

const USAGE = `Usage: node --import tsx scripts/test-grader.ts [--lab N] [--every N] [--json]

Changes recorded good captures in single places and reports which check fails; then makes meaningless changes and verifies that
none complains; then tries wrong and right answers.

  --lab N             the captures of one lab
  --every N           only each Nth mutation
`

await main(async () => {
  const options = {
    lab: { type: 'string' },
    every: { type: 'string' },
    json: { type: 'boolean' },
  } as const
  const { values } = parseArgs({ options })
  const every = Number(values.every ?? 1)
  if (!Number.isInteger(every) || every < 1)
    throw new Refusal(
      `--every "${values.every}" is not a whole number from 1 on: --every 10 tries each tenth mutation.`,
    )
  Error.stackTraceLimit = 0
  const lab = values.lab === undefined ? undefined : labNumber(values.lab)
  const all = await goodCaptures()
  const goods = all.filter(({ spec }) => lab === undefined || spec.lab.number === lab)
  const progress = createProgress()
  const tell = (what: string) => {
    let count = 0
    return ({ name }: { name: string }) =>
      progress.note(`${what}, capture ${++count} of ${goods.length}: ${name}`)
  }
  const trials = await tryMutations(goods, { every, begins: tell('Breaking') }, all)
  const falseAlarms = await seekFalseAlarms(goods, { begins: tell('Changing nothing that counts') })
  const answers = await tryAnswers(goods)
  if (values.json) console.log(JSON.stringify(graderTestSummary(trials, falseAlarms, answers)))
  else
    for (const line of [...graderTestLines(trials, falseAlarms), ...answerTrialLines(answers)])
      console.log(line)
  const isGood =
    !trials.some(isOpen) && falseAlarms.alarms.length === 0 && !answers.some(isMisjudged)
  return isGood ? ExitCode.passed : ExitCode.notYet
}, USAGE)
