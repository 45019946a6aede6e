// Shows hints, from a general one to the command:  hint.ts [2] [--step ID] [--tier N]
import { parseArgs } from 'node:util'
import { requireUp } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { selectCluster } from '../cluster/select.ts'
import { rememberHint, shownHints } from '../course/hint-memory.ts'
import { grade } from '../grading/grader.ts'
import { findStep, type LabDefinition, labNumber, readLab, type StepDefinition } from '../grading/lab-definition.ts'
import { begunLabs } from '../grading/lab-notes.ts'
import { clusterName } from '../host/layout.ts'
import { main, UserError } from '../host/main.ts'

await main(async () => {
  const options = { step: { type: 'string' }, tier: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const lab = readLab(positionals[0] ? labNumber(positionals[0]) : await labInWork())
  const step = values.step ? findStep(lab, values.step) : await firstOpenStep(lab)
  if (!step) {
    console.log(`Every step of lab ${lab.number} has passed: no hint is needed.`)
    return
  }
  const tier = chosenTier(lab, step, values.tier)
  rememberHint(lab.number, clusterName(process.env.NAME), step.id, tier)
  console.log(`${step.id}: ${step.title}`)
  if (step.question !== undefined) console.log(`Question: ${step.question}`)
  console.log(`Hint ${tier} of ${step.hints.length}: ${step.hints[tier - 1]}`)
  if (tier < step.hints.length)
    console.log(`Need more? Run the command again, or TIER=${step.hints.length} for the last one.`)
  else console.log(`To see it done: make solve-${lab.number} STEP=${step.id}`)
})

/**
 * The lab that was worked on last, according to the labs' notes in the cluster; prints its number.
 * @throws UserError if none was started
 */
async function labInWork(): Promise<number> {
  const cluster = await selectCluster()
  await requireUp(cluster)
  const [last, ...others] = await begunLabs(await kubeClient(cluster))
  if (last === undefined)
    throw new UserError('Which lab? None was started on this cluster: choose one, for example `make hint LAB=2`.')
  const rest = others.length > 0 ? `, of labs ${[last, ...others].toSorted((a, b) => a - b).join(', ')}` : ''
  console.log(`Lab ${last}, worked on last${rest}. LAB= chooses another one.`)
  return last
}

/** The first step that does not pass on the cluster now. */
async function firstOpenStep(lab: LabDefinition): Promise<StepDefinition | undefined> {
  const { driver, name } = await selectCluster()
  const report = await grade({ lab: lab.number, source: { kind: 'cluster', driver, name } })
  if (report.trouble !== undefined)
    throw new UserError(`${report.trouble} Or name a step: make hint STEP=${lab.steps[0]?.id}`)
  const open = report.steps.find(({ verdict }) => verdict === 'failed' || verdict === 'not yet')
  return open && findStep(lab, open.id)
}

/** The next tier after the ones already shown for this step; the last one again after all. */
function chosenTier(lab: LabDefinition, step: StepDefinition, wish: string | undefined): number {
  if (wish !== undefined) {
    const tier = Number(wish)
    if (Number.isInteger(tier) && tier >= 1 && tier <= step.hints.length) return tier
    throw new UserError(
      `"${wish}" is not a hint of step "${step.id}": it has ${step.hints.length}, TIER=1 is the most general.`,
    )
  }
  const highest = shownHints(lab.number, clusterName(process.env.NAME)).get(step.id) ?? 0
  return Math.min(highest + 1, step.hints.length)
}
