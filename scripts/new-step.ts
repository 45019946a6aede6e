// Adds a step to a lab as a template:  LAB=3 AFTER=web ID=session-affinity new-step.ts
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesOfLab } from '../course/lint/course-files.ts'
import { faultsOfNewStep, withNewStep } from '../course/lint/new-step.ts'
import { listLabs, parseLab } from '../grading/lab-definition.ts'
import { projectRoot } from '../host/layout.ts'
import { main, Refusal } from '../host/main.ts'

await main(async () => {
  const { LAB = '', AFTER: after = '', ID: id = '' } = process.env
  const labs = listLabs()
  const lab = labs.find(({ number }) => String(number) === LAB)
  if (!lab)
    throw new Refusal(
      `LAB="${LAB}" is not a lab: write it as in make new-step LAB=3 AFTER=web ID=affinity; the labs are ${labs.map(({ number }) => number).join(', ')}.`,
    )
  const files = filesOfLab(lab.folder)
  const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8')
  const faults = faultsOfNewStep({ after, id }, parseLab(read(files.definition), files.definition))
  if (faults.length > 0) throw new Refusal(`${faults.join('; ')}.`)
  const sources = Object.fromEntries(Object.values(files).map((file) => [file, read(file)]))
  // Everything is made before anything is written.
  for (const [file, text] of Object.entries(withNewStep({ after, id }, lab.folder, sources))) {
    writeFileSync(join(projectRoot, file), text)
    console.log(` ✓ ${file}`)
  }
  console.log(`Next:
  1. Replace every ✎ in these files, and take the step's points from others: they add up to 100.
  2. Add ${lab.number}/${id} to a claim in labs/claims.yaml and labs/CURRICULUM.md.
  3. make lint-labs                     what is still missing
  4. make check-${lab.number} STEP=${id}, make solve-${lab.number} STEP=${id}
  5. make record-solved LAB=${lab.number}, then npx vitest run test/labs test/course`)
})
