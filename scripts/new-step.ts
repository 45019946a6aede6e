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
import { linesFor } from '../host/wrap-lines.ts'

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
  const only = byStep ? ` -t "${steps.join('|')}"` : ''
  const claims = step.claim
    ? `${number}/${id} proves ${step.claim}: ${claimSentence(changed[files.curriculum] ?? '', step.claim)}`
    : `Add ${number}/${id} to a claim in ${files.claims} and in ${files.curriculum}, as CLAIM=A7 would have done.`
  // Commands stand on lines of their own, so that they can be copied.
  const next: [sentence: string, ...commands: string[]][] = [
    ['Replace every ✎: `make lint-labs` lists them, and what else is missing.'],
    [
      `Its point was taken from step ${richestOf(written)}: give it more of the 100. ${claims}`,
      `make check-${number} STEP=${id}`,
      `make solve-${number} STEP=${id}`,
    ],
    [
      `Break one thing on one node in ${files.breakages}. ${byStep ? 'Its test plays the step and those that it needs:' : 'Its test:'}`,
      `${test}${only}`,
    ],
    [
      'Record the solved lab again:',
      `make record-solved LAB=${number}`,
      test,
      'npx vitest run test/course test/instructors/submission',
    ],
    [
      "What it leaves on a cluster: leave in solution.ts. Its packet: labs/packets.yaml. Delete the slide and the card's line where they say nothing new.",
    ],
  ]
  console.log('Next:')
  for (const [index, [sentence, ...commands]] of next.entries())
    for (const line of [
      ...linesFor(process.stdout, sentence, `  ${index + 1}. `),
      ...commands.map((command) => `     ${command}`),
    ])
      console.log(line)
})
