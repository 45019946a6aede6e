import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'esbuild'
import { expect, test } from 'vitest'
import { parseLabText } from '../../course/lab-text.ts'
import { claimSentence } from '../../course/lint/claim-step.ts'
import { type CourseFiles, filesOfLab, readCourse } from '../../course/lint/course-files.ts'
import { lintCourse } from '../../course/lint/lint-course.ts'
import {
  faultsOfNewStep,
  filesOfStep,
  type NewStep,
  withNewStep,
} from '../../course/lint/new-step.ts'
import { listLabs, neededSteps, parseLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

const ID = 'made-here'

/** The files of a lab, and those of a copy with one more step. */
function withStep(folder: string, after: string, asked: Pick<NewStep, 'asks' | 'claim'> = {}) {
  const paths = Object.values(filesOfStep(folder, ID)).filter((path) =>
    existsSync(join(projectRoot, path)),
  )
  const sources = Object.fromEntries(
    paths.map((path) => [path, readFileSync(join(projectRoot, path), 'utf8')]),
  )
  const { definition } = filesOfLab(folder)
  const lab = parseLab(sources[definition] ?? '', definition)
  const step = { after, id: ID, ...asked }
  return { step, lab, sources, changed: withNewStep(step, folder, lab, sources) }
}

test.each([
  ['01-iptables', 'chains'],
  ['02-ipvs', 'pod-to-service'],
  ['02-ipvs', 'incident'],
  ['03-from-outside', 'web'],
])('a step of %s after %s is in each file, at its place', async (folder, after) => {
  const { definition, text, spec, solution } = filesOfLab(folder)
  const { changed } = withStep(folder, after)
  const ids = parseLab(changed[definition] ?? '', definition).steps.map(({ id }) => id)
  expect(ids[ids.indexOf(after) + 1]).toBe('made-here')
  expect([...parseLabText(changed[text] ?? '', text).sections.keys()]).toEqual(ids)
  for (const file of [spec, solution]) {
    await expect(transform(changed[file] ?? '', { loader: 'ts' })).resolves.toBeTruthy()
    expect(changed[file]?.match(/'made-here'[,:]/g)).toHaveLength(1)
  }
  expect(changed[spec]).toContain(`import { madeHereHolds } from './${folder}/made-here.ts'`)
})

/** What the linter reports of a lab with one more step, apart from minutes, which depend on the length of its text. */
async function complaintsAbout(
  folder: string,
  after: string,
  asked: Parameters<typeof withStep>[2],
) {
  const course = await readCourse()
  const { changed } = withStep(folder, after, asked)
  const labs = course.labs.map((lab) => {
    if (lab.folder !== folder || !lab.solution) return lab
    const entries = Object.entries(lab.solution.steps)
    const at = entries.findIndex(([id]) => id === after) + 1
    entries.splice(at, 0, [ID, { commands: ['✎ the commands'] }])
    const solution = { ...lab.solution, steps: Object.fromEntries(entries) }
    return { ...lab, sources: { ...lab.sources, ...changed }, solution }
  })
  const claims = changed['labs/claims.yaml'] ?? course.claims
  const curriculum = changed['labs/CURRICULUM.md'] ?? course.curriculum
  const written: CourseFiles = { ...course, labs, claims, curriculum }
  expect(lintCourse(course)).toEqual([])
  return lintCourse(written).filter(({ text }) => !text.includes('minutes'))
}

test('lint names what is missing, and nothing else', async () => {
  const files = filesOfStep('02-ipvs', ID)
  const complaints = await complaintsAbout('02-ipvs', 'sets', {})
  expect(complaints.map(({ file }) => file.split(':')[0]).sort()).toEqual(
    [
      ...[files.definition, files.text, files.solution, files.module, files.breakages],
      ...[files.card, files.deck],
      files.claims,
    ].sort(),
  )
  expect(complaints.map(({ text }) => text).join('\n')).toMatch(/step 2\/made-here proves no claim/)
})

test.each(['predict', 'question'] as const)(
  'a step with ASK=%s and a claim lacks only what must be written',
  async (asks) => {
    const complaints = await complaintsAbout('05-exposure', 'exposed', { asks, claim: 'A7' })
    expect(complaints.map(({ text }) => text)).toEqual(
      complaints.map(() => 'text is still to be written (✎).'),
    )
    expect(complaints).toHaveLength(7)
    const { changed } = withStep('05-exposure', 'exposed', { asks, claim: 'A7' })
    const { spec, solution, module, curriculum } = filesOfStep('05-exposure', ID)
    expect(changed[spec]).toContain(`step('made-here', madeHereHolds, { ${asks}: madeHereTruth })`)
    const word = asks === 'predict' ? 'predictAt' : 'answer'
    expect(changed[solution]).toContain(`${word}('made-here', `)
    expect(changed[curriculum]).toContain('`5/exposed`, `5/made-here`, ')
    await expect(transform(changed[module] ?? '', { loader: 'ts' })).resolves.toBeTruthy()
  },
)

test('a claim of the next number in its part is begun, with a sentence that is to be written', async () => {
  const claims = (await readCourse()).claims.match(/^C\d+/gm) ?? []
  const claim = `C${claims.length + 1}`
  const complaints = await complaintsAbout('03-from-outside', 'uneven', { claim })
  expect(complaints.map(({ text }) => text)).toEqual(
    complaints.map(() => 'text is still to be written (✎).'),
  )
  expect(complaints.map(({ file }) => file.split(':')[0])).toContain('labs/CURRICULUM.md')
  const { changed } = withStep('03-from-outside', 'uneven', { claim })
  expect(changed['labs/CURRICULUM.md']).toContain(
    `\n| ${claim} | ✎ What is claimed | \`3/made-here\` |\n`,
  )
  expect(changed['labs/claims.yaml']).toContain(`\n${claim}: [3/made-here]\n`)
  expect(claimSentence(changed['labs/CURRICULUM.md'] ?? '', claim)).toBe(
    '"✎ What is claimed", by 3/made-here.',
  )
})

test('the breakage that is to be written has its place in the table', async () => {
  const { breakages } = filesOfStep('05-exposure', ID)
  const { changed } = withStep('05-exposure', 'exposed')
  expect(changed[breakages]).toMatch(/^ {2}'made-here': \{\n {4}'✎ .*': '✎ .*',\n {2}\},\n\}\)/m)
  await expect(transform(changed[breakages] ?? '', { loader: 'ts' })).resolves.toBeTruthy()
  expect(changed[breakages]).not.toContain('✎ a typical wrong answer')
  const asking = withStep('05-exposure', 'exposed', { asks: 'question' }).changed[breakages] ?? ''
  expect(asking).toMatch(/^ {2}'made-here': '✎ a typical wrong answer',\n\}\n/m)
  await expect(transform(asking, { loader: 'ts' })).resolves.toBeTruthy()
  expect(withStep('06-scale', 'entries').changed).not.toHaveProperty('test/labs/lab-6-breakages.ts')
})

test('the step needs what the one before it needs, and its test plays all of that', () => {
  const { definition } = filesOfLab('05-exposure')
  const { changed } = withStep('05-exposure', 'gained-addresses')
  const later = parseLab(changed[definition] ?? '', definition)
  expect(neededSteps(later, ID)).toEqual(['stage', 'exposed', ID])
})

test('the card has a line more, and the deck a slide behind that of the step before', () => {
  const { card, deck } = filesOfStep('03-from-outside', ID)
  const { changed, sources } = withStep('03-from-outside', 'logged-client')
  const added = (file: string) => {
    const before = new Set(sources[file]?.split('\n'))
    return changed[file]?.split('\n').filter((line) => !before.has(line))
  }
  expect(added(card)).toEqual([`- ✎ What the step ${ID} leaves to take to work, in a line.`])
  expect(added(deck)).toEqual([
    `## ✎ What the step ${ID} shows`,
    `<!-- fence: 03-from-outside/${ID}#1 -->`,
    '✎ What the participants expect, and what surprises them.',
  ])
  const shown: string[] = changed[deck]?.match(/fence: 03-from-outside\/[a-z-]+/g) ?? []
  expect(shown[shown.indexOf(`fence: 03-from-outside/${ID}`) - 1]).toBe(
    'fence: 03-from-outside/logged-client',
  )
  // Each slide is separated from the next one.
  expect(changed[deck]?.split('\n---\n')).toHaveLength(
    (sources[deck]?.split('\n---\n').length ?? 0) + 1,
  )
})

test('a claim that does not exist and a module that does are refused', () => {
  expect(() => withStep('05-exposure', 'exposed', { claim: 'Z9' })).toThrow(
    'CLAIM="Z9" is not a claim of labs/CURRICULUM.md',
  )
  const { step, lab, sources } = withStep('05-exposure', 'exposed')
  const { module } = filesOfStep('05-exposure', ID)
  expect(() => withNewStep(step, '05-exposure', lab, { ...sources, [module]: '' })).toThrow(
    'checks/05-exposure/made-here.ts exists',
  )
})

test('sections are numbered again', () => {
  const { text } = filesOfLab('02-ipvs')
  const { changed } = withStep('02-ipvs', 'sets')
  const numbers = [...(changed[text] ?? '').matchAll(/^## (\d+)\. /gm)].map(([, n]) => Number(n))
  expect(numbers).toEqual(numbers.map((_, index) => index + 1))
})

test('bad input is refused with all faults at once', () => {
  const [first] = listLabs()
  const { definition } = filesOfLab(first?.folder ?? '')
  const lab = parseLab(readFileSync(join(projectRoot, definition), 'utf8'), definition)
  expect(faultsOfNewStep({ after: 'nowhere', id: 'Node Port' }, lab)).toEqual([
    expect.stringContaining('AFTER="nowhere" is not a step of the lab: its steps are mode, web'),
    expect.stringContaining('ID="Node Port" is not an id'),
  ])
  expect(faultsOfNewStep({ after: 'web', id: 'web', asks: 'guess' }, lab)).toEqual([
    'ID="web" is a step of the lab already',
    expect.stringContaining('ASK="guess" is not how a step asks: use ASK=predict'),
  ])
})

test('a file that is written differently is left alone', () => {
  const { spec } = filesOfLab('02-ipvs')
  const { step, lab, sources } = withStep('02-ipvs', 'sets')
  const other = { ...sources, [spec]: 'export default 1\n' }
  expect(() => withNewStep(step, '02-ipvs', lab, other)).toThrow('has no part for step "sets"')
})
