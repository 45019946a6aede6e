import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type CourseFiles, readCourse } from '../../course/lint/course-files.ts'
import { lintCourse } from '../../course/lint/lint-course.ts'
import { good, goodCourse, madeLab, solution } from './made-course.ts'

const outputOf = (course: CourseFiles) =>
  lintCourse(course).map(({ file, text }) => `${file}: ${text}`)
const { definition, text } = good

const predicting = definition.replace(
  'points: 20',
  'points: 20\n    predict: How many members are there?',
)
const quoted = (ask: string, command: string) =>
  text.replace('```bash', `> **Predict.** ${ask}\n> \`make answer ${command}\`\n\n\`\`\`bash`)

test('the course of this checkout has nothing to complain of', async () => {
  expect(outputOf(await readCourse())).toEqual([])
})

test('a solution and a spec that load without what they must export are complained of', async () => {
  const root = mkdtempSync(join(tmpdir(), 'lint-course-'))
  for (const folder of ['labs/07-made', 'checks'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const file of ['labs/07-made/solution.ts', 'checks/07-made.check.ts'])
    writeFileSync(join(root, file), 'export const another = 1\n')
  const complaints = outputOf(await readCourse(root))
  rmSync(root, { recursive: true })
  expect(complaints).toContain(
    'labs/07-made/solution.ts: can\'t be loaded: it has no export "solution"',
  )
  expect(complaints).toContain(
    'checks/07-made.check.ts: can\'t be loaded: it has no export "default"',
  )
})

test('nor has a small one', () => expect(outputOf(goodCourse())).toEqual([]))

test('what comes by a pipe is no file', () => {
  const piped = text.replace(
    'kubectl apply -f labs/07-made/manifests/one.yaml',
    'echo | kubectl apply -f -',
  )
  expect(outputOf(goodCourse({ text: piped }, { exists: (path) => path !== '-' }))).toEqual([])
})

test.each<[string, CourseFiles, RegExp]>([
  [
    'no definition',
    goodCourse({ definition: undefined }, { claims: 'A1: [1/x]' }),
    /lab\.yaml: is missing/,
  ],
  [
    'a text that names a step by its number',
    goodCourse({ text: `${text}\nAs you saw in step 1.\n` }),
    /README\.md:\d+: "step 1" names a step by its number/,
  ],
  [
    'a hint that names steps by their numbers',
    goodCourse({ definition: definition.replace('Look around.', 'Look at steps 1 and 2.') }),
    /lab\.yaml:\d+: "steps 1" names a step by its number/,
  ],
  [
    'a command with the number of a step',
    goodCourse({ text: `${text}\n\`make check-7 STEP=2\`\n` }),
    /README\.md:\d+: "STEP=2" names a step by its number/,
  ],
  ['no text', goodCourse({ text: undefined }), /README\.md: is missing/],
  [
    'no solution',
    goodCourse({ source: undefined, solution: undefined }),
    /solution\.ts: is missing/,
  ],
  ['no spec', goodCourse({ spec: undefined }), /checks\/07-made\.check\.ts: is missing/],
  [
    'a spec that does not load',
    goodCourse({ unloadable: [{ file: 'checks/07-made.check.ts', text: 'no check for "two"' }] }),
    /no check for "two"/,
  ],
  [
    'a solution that does not load',
    goodCourse({
      solution: undefined,
      unloadable: [{ file: 'solution.ts', text: 'no such file' }],
    }),
    /no such file/,
  ],
  ['an invalid definition', goodCourse({ definition: 'id: 7\ntitle: Half a lab' }), /is not a lab/],
  ['invalid YAML', goodCourse({ definition: 'id: [' }), /lab\.yaml: /],
  ['another number', goodCourse({ definition: definition.replace('id: 7', 'id: 8') }), /id is 8/],
  [
    'only one hint',
    goodCourse({ definition: definition.replace('Look around., ', '') }),
    /is not a lab.*hints/,
  ],
  [
    'points',
    goodCourse({ definition: definition.replace('points: 20', 'points: 19') }),
    /add up to 99, not 100/,
  ],
  [
    'one question about earlier labs',
    goodCourse({
      definition: definition.replace(/ {2}- id: earlier\n(?: {4}.*\n){3}/, ''),
      text: text.replace(/> \*\*Recall\.\*\* .* earlier\?\n.*\n/, ''),
    }),
    /has 1 of the 2 questions under "recall:"/,
  ],
  [
    'two steps of five that ask',
    goodCourse({
      definition: definition.replace('    question: What is five?\n', ''),
      text: text.replace(/> \*\*Question\.\*\* What is five\?\n.*\n/, ''),
    }),
    /asks in 2 of its 5 steps/,
  ],
  [
    'a command as the first hint',
    goodCourse({ definition: definition.replace('Look around.', 'Run `kubectl get pods`.') }),
    /first hint of step "one"/,
  ],
  [
    'no command as the last hint',
    goodCourse({ definition: definition.replace('Run `make web` for two.', 'Think about it.') }),
    /last hint of step "two" must show a command/,
  ],
  [
    'a duplicate title',
    goodCourse({ definition: definition.replace('The step two', 'The step one') }),
    /"two" has the same title as another/,
  ],
  [
    'a step without a section',
    goodCourse({ text: text.replace('<!-- step: three -->', '') }),
    /has no section for step "three"/,
  ],
  [
    'a section without a step',
    goodCourse({ text: text.replace('step: three', 'step: thirty') }),
    /section for "thirty", which is not a step/,
  ],
  [
    'sections out of order',
    goodCourse({
      text: text
        .replace('step: one', 'step: x')
        .replace('step: two', 'step: one')
        .replace('step: x', 'step: two'),
    }),
    /order of the steps/,
  ],
  [
    'no observed output',
    goodCourse({ text: text.replace('**What you saw.**', 'So.') }),
    /section of step "one" must contain/,
  ],
  [
    'an unknown target',
    goodCourse({ text: text.replace('make web', 'make -s webb NODE=x') }),
    /README\.md:\d+: "make webb" is not a target/,
  ],
  [
    'a node name that depends on NAME=',
    goodCourse({ text: text.replace('make web', 'make exec NODE=k8s-guide-worker2 CMD=true') }),
    /README\.md:\d+: "k8s-guide-worker2" exists only in a cluster without NAME=/,
  ],
  [
    'a missing file',
    goodCourse({}, { exists: (path) => !path.includes('four') }),
    /four\.yaml" does not exist/,
  ],
  [
    'a fence with an unknown attribute',
    goodCourse({ text: text.replace('```bash', '```bash twice=2') }),
    /twice=2/,
  ],
  [
    'a command that is missing from the text',
    goodCourse({ solution: solution({ two: { commands: ['make iptables'] } }) }),
    /step "two" runs "make iptables"/,
  ],
  [
    'a cleanup command that is missing from the text',
    goodCourse({
      solution: solution({
        two: { commands: [], cleanup: { commands: ['rm x'], play: async () => undefined } },
      }),
    }),
    /step "two" runs "rm x"/,
  ],
  [
    'a solution of an unknown step',
    goodCourse({ solution: solution({ six: { commands: [] } }) }),
    /must have the steps one, two.*it has .*six/,
  ],
  [
    'a step without a claim',
    goodCourse({}, { claims: 'A1: [7/one, 7/two, 7/three, 7/four]' }),
    /step 7\/five proves no claim/,
  ],
  [
    'a claim of an unknown step',
    goodCourse({}, { claims: 'A1: [7/one, 7/two, 7/three, 7/four, 7/five, 7/six]' }),
    /claim A1 names 7\/six/,
  ],
  [
    'a prediction without a blockquote',
    goodCourse({ definition: predicting }),
    /no blockquote "> \*\*Predict\.\*\* How many members are there\?" for "one"/,
  ],
  [
    'a blockquote with another text',
    goodCourse({ definition: predicting, text: quoted('How many sets are there?', 'Q=one') }),
    /README\.md:\d+: must have the text of lab\.yaml: .*members/,
  ],
  [
    'a blockquote that lab.yaml does not know',
    goodCourse({ text: quoted('How many sets are there?', 'Q=one') }),
    /README\.md:\d+: asks what lab\.yaml does not ask/,
  ],
  [
    'a blockquote without a command',
    goodCourse({
      definition: predicting,
      text: quoted('How many members are there?', 'LAB=7 Q=one'),
    }),
    /must end with `make answer LAB=7 Q=one A=…`/,
  ],
  ['invalid claims', goodCourse({}, { claims: 'Z1: [7/one]' }), /claims\.yaml: /],
  ['no row in the README', goodCourse({}, { readme: '' }), /no row for labs\/07-made/],
  [
    'different minutes in the README',
    goodCourse({}, { readme: '| [7](labs/07-made/README.md) | nothing | 45 |' }),
    /must end with its 10 minutes/,
  ],
  [
    'a part that states more minutes than it takes',
    goodCourse({
      definition: good.definition
        .replace('minutes: 10', 'minutes: 35')
        .replace(
          'steps:',
          'parts:\n  - { id: a, title: most, minutes: 15, first: one }\n  - { id: b, title: the end, minutes: 20, first: five }\nsteps:',
        ),
    }),
    /its part b takes about \d minutes by the model; lab\.yaml states 20\./,
  ],
  [
    'nothing to try elsewhere',
    goodCourse({ text: text.replace('**Try this on your cluster.**', '') }),
    /must end with something to try elsewhere/,
  ],
  ['no card', goodCourse({ card: undefined }), /labs\/07-made\/CARD\.md: is missing/],
  [
    'a deck with other minutes',
    goodCourse({ deck: '# Lab 7\n\nNote:\nAbout 15 minutes.' }),
    /slides\/07-made\.md: says "about 15 minutes"; lab\.yaml states 10/,
  ],
  [
    'a table that is not the plan',
    goodCourse(
      {},
      {
        instructors:
          '### One day\n\nLong.\n\n| when | what | minutes |\n|---|---|---|\n| 09:00 | Lab 1 | 5 |\n',
      },
    ),
    /INSTRUCTORS\.md: has a table that is not the plan/,
  ],
  [
    'a mark of the scaffold',
    goodCourse({ source: 'a\nb // ✎ write' }),
    /labs\/07-made\/solution\.ts:2: text is still to be written/,
  ],
  [
    'two labs of one number',
    { ...goodCourse(), labs: [madeLab(), madeLab({ folder: '07-twin' })] },
    /labs\/07-twin: has the number of labs\/07-made/,
  ],
])('says so of %s', (_what, course, complaint) => {
  const complaints = outputOf(course)
  expect(
    complaints.filter((line) => complaint.test(line)).length,
    complaints.join('\n'),
  ).toBeGreaterThan(0)
})

test('a complaint is one line, and names a file', () => {
  for (const { file, text } of lintCourse(goodCourse({ definition: 'id: 7' }))) {
    expect(file).toMatch(/^(labs|checks|README)/)
    expect(text).not.toContain('\n')
  }
})
