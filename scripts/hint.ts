// Shows hints, from a general one to the command:  hint.ts [2] [--step ID] [--tier N]
import { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { chosenTier, firstOpenStep, labInWork, rememberHint, shownHints } from '../course/hints.ts'
import { findStep, labNumber, readLab } from '../grading/lab-definition.ts'
import { clusterName } from '../host/layout.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const options = { step: { type: 'string' }, tier: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const selected = selectCluster()
  // A lab and a step that are named need no cluster, so it may be unusable.
  const name = await selected.then((cluster) => cluster.name).catch(() => clusterName())
  const lab = readLab(positionals[0] ? labNumber(positionals[0]) : await labInWork(await selected))
  const step = values.step ? findStep(lab, values.step) : await firstOpenStep(lab, await selected)
  if (!step) return console.log(`Every step of lab ${lab.number} has passed: no hint is needed.`)
  const { id, title, question, hints } = step
  const tier = chosenTier(step, values.tier, shownHints(lab.number, name).get(id))
  rememberHint(lab.number, name, id, tier)
  console.log(`${id}: ${title}`)
  if (question !== undefined) console.log(`Question: ${question.ask}`)
  console.log(`Hint ${tier} of ${hints.length}: ${hints[tier - 1]}`)
  if (tier < hints.length)
    console.log(`Need more? Run the command again, or TIER=${hints.length} for the last one.`)
  else console.log(`To see it done: make solve-${lab.number} STEP=${id}`)
})
