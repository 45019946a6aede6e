// Adds a step to a lab, by a draft: LAB=3 AFTER=web ID=session-affinity ASK=question CLAIM=C4
// new-step.ts, and once it is written LAB=3 ID=session-affinity new-step.ts
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { $, chalk } from 'zx/core'
import {
  claimSentence,
  claimsOfLab,
  isClaim,
  nextClaim,
  withClaimedStep,
} from '../course/lint/claim-step.ts'
import {
  CLAIM_FILES,
  filesOfLab,
  type LintMessage,
  oneLine,
  readCourse,
} from '../course/lint/course-files.ts'
import {
  answerNames,
  faultsOfNewStep,
  filesOfStep,
  isAboutMinutes,
  isByStep,
  lintPlaced,
  tablesIn,
  withNewStep,
  writtenPacket,
} from '../course/lint/new-step.ts'
import { stepModule } from '../course/lint/new-step-templates.ts'
import {
  type NewStep,
  type NewStepAsks,
  readDraft,
  type StepDraft,
  stepDraft,
  unwrittenIn,
} from '../course/lint/step-draft.ts'
import { stepReference } from '../course/lint/step-reference.ts'
import { listLabs, neededSteps, parseLab } from '../grading/lab-definition.ts'
import { projectRoot } from '../host/layout.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'
import { linesFor } from '../host/wrap-lines.ts'

const placeOf = (file: string) => join(projectRoot, file)
const isThere = (file: string) => existsSync(placeOf(file))
const read = (file: string) => (isThere(file) ? readFileSync(placeOf(file), 'utf8') : '')

function write(file: string, text: string): void {
  mkdirSync(dirname(placeOf(file)), { recursive: true })
  writeFileSync(placeOf(file), text)
  console.log(` ${chalk.green('✓')} ${file}`)
}

/** What to do next, as a sentence, and its commands. */
type NextCommands = readonly [sentence: string, ...commands: string[]]

/**
 * What to do next: sentences, each with commands on lines of their own, so that they can be copied.
 */
function sayNext(next: readonly NextCommands[]): void {
  console.log('Next:')
  for (const [index, [sentence, ...commands]] of next.entries())
    for (const line of [
      ...linesFor(process.stdout, sentence, `  ${index + 1}. `),
      ...commands.map((command) => `     ${command}`),
    ])
      console.log(line)
}

await main(async () => {
  const { LAB = '', AFTER: after = '', ID: id = '', ASK, CLAIM } = process.env
  const labs = listLabs()
  const lab = labs.find(({ number }) => String(number) === LAB)
  if (!lab)
    throw new Refusal(
      `LAB="${LAB}" is not a lab: write it as in make new-step LAB=3 AFTER=web ID=affinity; the labs are ${labs.map(({ number }) => number).join(', ')}.`,
    )
  const isDrafted = isThere(filesOfStep(lab.folder, id).draft)
  if (isDrafted) return placeStep(lab, id)
  return beginStep(lab, {
    after,
    id,
    asks: (ASK || undefined) as NewStepAsks | undefined,
    // A letter alone is the next claim of its part.
    claim: nextClaim(read(CLAIM_FILES.claims), CLAIM ?? '') ?? (CLAIM || undefined),
  })
})

type Lab = ReturnType<typeof listLabs>[number]

/** Writes the draft of a step and the module of its check. */
function beginStep({ number, folder }: Lab, step: NewStep): number {
  const { definition } = filesOfLab(folder)
  const written = parseLab(read(definition), definition)
  const faults = faultsOfNewStep(step, written)
  if (faults.length > 0) throw new Refusal(`${faults.join('; ')}.`)
  const { id, after, claim } = step
  const files = filesOfStep(folder, id)
  if (isThere(files.module))
    throw new Refusal(
      `${files.module} exists, where the check of the step would be: choose another ID.`,
    )
  const texts = { claims: read(files.claims), curriculum: read(files.curriculum) }
  // Throws for a claim that is neither there nor the next one of its part.
  if (claim) withClaimedStep(texts, { claim, claimed: id, place: `${number}/${id}`, after })
  const place = {
    folder,
    needs: written.steps.find((one) => one.id === after)?.needs ?? [],
    beginsClaim: claim !== undefined && !isClaim(texts.claims, claim),
    ...tablesIn(read(files.breakages)),
    isByStep: isByStep(read(files.test)),
    answers: answerNames(read(files.solution)),
    packet: writtenPacket(read(files.packets), number, after),
    reference: stepReference(number, after, files, read),
  }
  write(files.draft, stepDraft(step, place))
  write(files.module, stepModule({ ...step, lab: number }))
  const claimed =
    claim && !place.beginsClaim ? ` ${claim} is ${claimSentence(texts.curriculum, claim)}` : ''
  const known = claim ? [] : claimsOfLab(texts, number)
  if (known.length > 0) console.log('The claim may be one of these:')
  for (const line of known.flatMap((one) => linesFor(process.stdout, one, '  '))) console.log(line)
  sayNext([
    [
      `Write both: replace every ✎. The end of the draft shows the step before, and what a step can use.${claimed}`,
    ],
    [
      'The same command checks the draft, and once it is written puts it into the lab, the claims, the card and the deck:',
      `make new-step LAB=${number} ID=${id}`,
    ],
  ])
  return ExitCode.passed
}

/** Puts a draft into the files of its lab, or tells all that is wrong with it. */
async function placeStep({ number, folder }: Lab, id: string): Promise<number> {
  const files = filesOfStep(folder, id)
  const { definition, draft: file } = files
  const sources = Object.fromEntries(
    Object.values(files).flatMap((path) => (isThere(path) ? [[path, read(path)]] : [])),
  )
  const unwritten = unwrittenIn(sources[file] ?? '', file)
  if (unwritten.length > 0) return refuseDraft(file, unwritten)
  let draft: StepDraft
  try {
    draft = readDraft(sources[file] ?? '', id, number)
  } catch (error) {
    return refuseDraft(file, [{ file, text: `${oneLine(error)}.` }])
  }
  const lab = parseLab(read(definition), definition)
  const faults = faultsOfNewStep(draft, lab)
  if (faults.length > 0)
    return refuseDraft(
      file,
      faults.map((text) => ({ file, text: `${text}.` })),
    )
  // Everything is made before anything is written.
  const changed = withNewStep(draft, folder, lab, sources)
  const told = lintPlaced(await readCourse(), draft, folder, changed)
  const complaints = told.filter((one) => !isAboutMinutes(one))
  if (complaints.length > 0) return refuseDraft(file, complaints)
  for (const [path, text] of Object.entries(changed)) if (text !== read(path)) write(path, text)
  rmSync(placeOf(file))
  const typescript = Object.keys(changed).filter((path) => path.endsWith('.ts'))
  // What can't be parsed is reported by tsc.
  await $({
    quiet: true,
    nothrow: true,
  })`${placeOf('node_modules/.bin/biome')} check --write ${typescript.map(placeOf)}`
  for (const { file: place, text } of told.filter(isAboutMinutes))
    for (const line of linesFor(process.stdout, `${place} ${text}`, ' • ')) console.log(line)
  sayAfterwards(number, draft, changed[definition] ?? '', files)
  return ExitCode.passed
}

/** Tells what is wrong with a draft; nothing was changed. */
function refuseDraft(file: string, faults: readonly LintMessage[]): number {
  for (const { file: place, text } of faults)
    for (const line of linesFor(
      process.stdout,
      `${chalk.bold(place)}: ${text}`,
      ` ${chalk.red('✗')} `,
    ))
      console.log(line)
  const next = `Nothing was changed: correct ${file}, and run the same command again.`
  for (const line of linesFor(process.stdout, next)) console.log(line)
  return ExitCode.notYet
}

/** What remains to be done for a step that is in its lab. */
function sayAfterwards(
  number: number,
  { id, broken }: StepDraft,
  definition: string,
  { solution, breakages, test: testFile }: ReturnType<typeof filesOfStep>,
): void {
  const later = parseLab(definition, `labs/${number}`)
  const needed = neededSteps(later, id)
  const steps = needed.map((one) => `'${one}'`)
  const test = `npx vitest run ${testFile}`
  const byStep = isByStep(read(testFile))
  const textTest = `test/labs/lab-${number}-text.test.ts`
  const playsText: NextCommands[] = isThere(textTest)
    ? [['Play the commands of the text, as a learner types them:', `npx vitest run ${textTest}`]]
    : []
  const only = byStep ? ` -t "${steps.join('|')}"` : ''
  sayNext([
    [
      `Play it after what it needs, and judge it. What it leaves on a cluster is removed by leave in ${solution}.`,
      ...needed.map((one) => `make solve-${number} STEP=${one}`),
      `make check-${number} STEP=${id}`,
    ],
    ['What is left to be written, and the minutes of the longer text:', 'make lint-labs FIX=1'],
    [
      `${Object.keys(broken).length > 0 ? `Its breakage is in ${breakages}` : `Break one thing on one node in a test of ${testFile}`}. ${byStep ? 'Its test plays the step and those that it needs:' : 'The test of the lab:'}`,
      `${test}${only}`,
    ],
    ...playsText,
    [
      'Record the solved lab again, and test what was written:',
      `make record-solved LAB=${number}`,
      `npx vitest run ${byStep ? `${testFile} ` : ''}test/course test/instructors/submission test/slides`,
      'npx tsc --noEmit && npx biome check .',
    ],
  ])
}
