import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'esbuild'
import { expect, test } from 'vitest'
import { parseLabText } from '../../course/lab-text.ts'
import { filesOfLab, readCourse } from '../../course/lint/course-files.ts'
import { lintCourse } from '../../course/lint/lint-course.ts'
import { faultsOfNewStep, withNewStep } from '../../course/lint/new-step.ts'
import { listLabs, parseLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

const step = (after: string) => ({ after, id: 'made-here' })

/** The files of a lab, and those of a copy with one more step. */
function withStep(folder: string, after: string) {
  const paths = Object.values(filesOfLab(folder))
  const sources = Object.fromEntries(
    paths.map((path) => [path, readFileSync(join(projectRoot, path), 'utf8')]),
  )
  return { sources, changed: withNewStep(step(after), folder, sources) }
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
  expect(changed[spec]?.match(/\bfail\b.*from '..\/grading\/failure.ts'/g)).toHaveLength(1)
})

test('lint names what is missing, and nothing else', async () => {
  const folder = '02-ipvs'
  const files = filesOfLab(folder)
  const course = await readCourse()
  const { changed } = withStep(folder, 'sets')
  const labs = course.labs.map((lab) => {
    if (lab.folder !== folder || !lab.solution) return lab
    const entries = Object.entries(lab.solution.steps)
    const at = entries.findIndex(([id]) => id === 'sets') + 1
    entries.splice(at, 0, ['made-here', { commands: ['✎ the commands'] }])
    const solution = { ...lab.solution, steps: Object.fromEntries(entries) }
    return { ...lab, sources: { ...lab.sources, ...changed }, solution }
  })
  const before = lintCourse(course).length
  // One more section may take the text out of the minutes' tolerance, which depends on the lab.
  const complaints = lintCourse({ ...course, labs }).filter(
    ({ text }) => !text.startsWith('takes about'),
  )
  expect(before).toBe(0)
  expect(complaints.map(({ file }) => file.split(':')[0])).toEqual([
    ...[files.definition, files.text, files.solution, files.spec],
    files.definition,
    'labs/claims.yaml',
  ])
  expect(complaints.map(({ text }) => text).join('\n')).toMatch(
    /add up to 101, not 100\.\nstep 2\/made-here proves no claim/,
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
  expect(faultsOfNewStep({ after: 'web', id: 'web' }, lab)).toEqual([
    'ID="web" is a step of the lab already',
  ])
})

test('a file that is written differently is left alone', () => {
  const { spec } = filesOfLab('02-ipvs')
  const { sources } = withStep('02-ipvs', 'sets')
  const other = { ...sources, [spec]: 'export default 1\n' }
  expect(() => withNewStep(step('sets'), '02-ipvs', other)).toThrow('has no part for step "sets"')
})
