// Adds a step to a lab as a template:  LAB=3 AFTER=web ID=session-affinity ASK=question CLAIM=C4 new-step.ts
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { claimSentence } from '../course/lint/claim-step.ts'
import { filesOfLab } from '../course/lint/course-files.ts'
import {
  faultsOfNewStep,
  filesOfStep,
  type NewStep,
  richestOf,
  withNewStep,
} from '../course/lint/new-step.ts'
import { listLabs, neededSteps, parseLab } from '../grading/lab-definition.ts'
import { projectRoot } from '../host/layout.ts'
import { main, Refusal } from '../host/main.ts'

await main(async () => {
  const { LAB = '', AFTER: after = '', ID: id = '', ASK, CLAIM } = process.env
  const labs = listLabs()
  const lab = labs.find(({ number }) => String(number) === LAB)
  if (!lab)
    throw new Refusal(
      `LAB="${LAB}" is not a lab: write it as in make new-step LAB=3 AFTER=web ID=affinity; the labs are ${labs.map(({ number }) => number).join(', ')}.`,
    )
  const { number, folder } = lab
  const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8')
  const { definition } = filesOfLab(folder)
  const written = parseLab(read(definition), definition)
  const asks = ASK || undefined
  const faults = faultsOfNewStep({ after, id, asks }, written)
  if (faults.length > 0) throw new Refusal(`${faults.join('; ')}.`)
  const files = filesOfStep(folder, id)
  const existing = Object.values(files).filter((file) => existsSync(join(projectRoot, file)))
  const sources = Object.fromEntries(existing.map((file) => [file, read(file)]))
  const step: NewStep = { after, id, asks: asks as NewStep['asks'], claim: CLAIM || undefined }
  // Everything is made before anything is written.
  const changed = withNewStep(step, folder, written, sources)
  for (const [file, text] of Object.entries(changed)) {
    mkdirSync(dirname(join(projectRoot, file)), { recursive: true })
    writeFileSync(join(projectRoot, file), text)
    console.log(` ✓ ${file}`)
  }
  const later = parseLab(changed[definition] ?? '', definition)
  const steps = neededSteps(later, id).map((one) => `'${one}'`)
  const testFile = `test/labs/lab-${number}.test.ts`
  const test = `npx vitest run ${testFile}`
  // Tests that play step by step have a title for each step.
  const byStep = existsSync(join(projectRoot, testFile)) && read(testFile).includes("'$id: ")
  const only = byStep ? ` -t "${steps.join('|')}"    plays it and the steps that it needs` : ''
  const claims = step.claim
    ? `${number}/${id} proves ${step.claim}: ${claimSentence(changed[files.curriculum] ?? '', step.claim)}`
    : `Add ${number}/${id} to a claim in ${files.claims} and in ${files.curriculum}, as CLAIM=A7 would have done.`
  console.log(`Next:
  1. Replace every ✎: make lint-labs lists them, and what else is missing.
  2. Its point was taken from step ${richestOf(written)}: give it more of the 100. ${claims}
  3. make check-${number} STEP=${id}, make solve-${number} STEP=${id}
  4. Break one thing on one node in ${files.breakages}, then
     ${test}${only}
  5. make record-solved LAB=${number}, then ${test} and npx vitest run test/course test/instructors/submission
  6. What it leaves on a cluster: leave in solution.ts. Its packet: labs/packets.yaml. The slide and the card's line that are nothing new: delete them.`)
})
