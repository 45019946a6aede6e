// Hints from a nudge to the command:  hint.ts [2] [--step ID] [--tier N]
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { labNumber } from '../course/lab-number.ts'
import { evidenceFolder } from '../grading/evidence.ts'
import { grade } from '../grading/grader.ts'
import { findStep, type LabDefinition, readLab, type StepDefinition } from '../grading/lab-definition.ts'
import { listLabs } from '../grading/lab-folders.ts'
import { clusterName, projectRoot } from '../host/layout.ts'
import { main, UserError } from '../host/main.ts'

await main(async () => {
  const options = { step: { type: 'string' }, tier: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const lab = readLab(positionals[0] ? labNumber(positionals[0]) : (listLabs()[0]?.number ?? 0))
  const step = values.step ? findStep(lab, values.step) : await firstOpenStep(lab)
  if (!step) {
    console.log(`Every step of lab ${lab.number} has passed: there is nothing left to hint at.`)
    return
  }
  const tier = chosenTier(lab, step, values.tier)
  remember(lab, step, tier)
  console.log(`${step.id}: ${step.title}`)
  if (step.question !== undefined) console.log(`It asks: ${step.question}`)
  console.log(`Hint ${tier} of ${step.hints.length}: ${step.hints[tier - 1]}`)
  if (tier < step.hints.length) console.log(`Need more? Ask again, or TIER=${step.hints.length} for the last one.`)
  else console.log(`To see it done: make solve-${lab.number} STEP=${step.id}`)
})

/** The first step that does not pass on the cluster now. */
async function firstOpenStep(lab: LabDefinition): Promise<StepDefinition | undefined> {
  const { driver, name } = await selectCluster()
  const report = await grade({ lab: lab.number, source: { kind: 'cluster', driver, name } })
  if (report.trouble !== undefined)
    throw new UserError(`${report.trouble} Or name a step: make hint STEP=${lab.steps[0]?.id}`)
  const open = report.steps.find(({ verdict }) => verdict === 'failed' || verdict === 'not yet')
  return open && findStep(lab, open.id)
}

/** Where the hints that were shown are noted; `make reset-N` forgets them. */
function memory(lab: LabDefinition): string {
  return join(projectRoot, evidenceFolder(lab.number, clusterName(process.env.NAME)), 'hints.txt')
}

/** One tier further than what was shown for this step before; the last one again when all were. */
function chosenTier(lab: LabDefinition, step: StepDefinition, wish: string | undefined): number {
  if (wish !== undefined) {
    const tier = Number(wish)
    if (Number.isInteger(tier) && tier >= 1 && tier <= step.hints.length) return tier
    throw new UserError(
      `"${wish}" is no hint of step "${step.id}": it has ${step.hints.length}, TIER=1 is the gentlest.`,
    )
  }
  const shown = existsSync(memory(lab)) ? readFileSync(memory(lab), 'utf8').split('\n') : []
  const highest = Math.max(
    0,
    ...shown.filter((line) => line.startsWith(`${step.id} `)).map((line) => Number(line.split(' ')[1])),
  )
  return Math.min(highest + 1, step.hints.length)
}

function remember(lab: LabDefinition, step: StepDefinition, tier: number): void {
  mkdirSync(join(memory(lab), '..'), { recursive: true })
  appendFileSync(memory(lab), `${step.id} ${tier}\n`)
}
