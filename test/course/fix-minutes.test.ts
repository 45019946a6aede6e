// Minutes are stated in lab.yaml, in the text and in README.md: `make lint-labs FIX=1` writes those
// of the model everywhere.

import { expect, test } from 'vitest'
import { readCourse } from '../../course/lint/course-files.ts'
import { withModelMinutes } from '../../course/lint/fix-minutes.ts'
import { lintCourse } from '../../course/lint/lint-course.ts'

const course = await readCourse()

/** The course whose lab's text has more words, as many as given. */
const longer = (folder: string, words: number) => ({
  ...course,
  labs: course.labs.map((lab) => {
    const text = `labs/${folder}/README.md`
    const source = lab.sources[text]
    if (lab.folder !== folder || source === undefined) return lab
    return {
      ...lab,
      sources: {
        ...lab.sources,
        [text]: source.replace('## What you take home', `${'word '.repeat(words)}\n\n$&`),
      },
    }
  }),
})

/** The course with changed files. */
const withFiles = (base: typeof course, changed: Record<string, string>) => ({
  ...base,
  readme: changed['README.md'] ?? base.readme,
  labs: base.labs.map((lab) => ({ ...lab, sources: { ...lab.sources, ...changed } })),
})

const minutesComplaints = (one: typeof course) =>
  lintCourse(one).filter(({ text }) => text.includes('minutes'))

test('a course whose minutes are right is left as it is', () =>
  expect(withModelMinutes(course)).toEqual({}))

// Lab 5 has no parts, lab 10 has.
test.each(['05-exposure', '10-connections'])(
  'a longer text of %s changes the minutes at every place',
  (folder) => {
    const before = longer(folder, 2_000)
    expect(
      minutesComplaints(before)
        .map(({ text }) => text)
        .join('\n'),
    ).toMatch(/takes about \d+ minutes by the model.* make lint-labs FIX=1 writes/)
    const changed = withModelMinutes(before)
    expect(Object.keys(changed).sort()).toEqual([
      'README.md',
      `labs/${folder}/README.md`,
      `labs/${folder}/lab.yaml`,
      `slides/${folder}.md`,
    ])
    // A plan of a workshop is corrected by hand: its day has to add up.
    const left = minutesComplaints(withFiles(before, changed))
    expect(left.filter(({ file }) => file !== 'course/workshop-plan.ts')).toEqual([])
  },
)

test('a plan that is shorter than a lab is a complaint', () => {
  const before = longer('05-exposure', 2_000)
  expect(minutesComplaints(withFiles(before, withModelMinutes(before)))).toEqual([
    {
      file: 'course/workshop-plan.ts',
      text: expect.stringMatching(/^plans \d+ minutes for lab 5 in "two days"/),
    },
  ])
})

test('the tables of INSTRUCTORS.md are written as the plans are, and the text around them stays', () => {
  const { instructors } = course
  const stale = instructors.replace(/\| Lab 1 \| \d+ \|/, '| Lab 1 | 1 |')
  expect(stale).not.toBe(instructors)
  expect(withModelMinutes({ ...course, instructors: stale })).toEqual({
    'INSTRUCTORS.md': instructors,
  })
})
