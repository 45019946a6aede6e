import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { learnerKeyLine, readClassKey } from '../../../grading/class-key.ts'
import { reportSchema } from '../../../grading/report-schema.ts'
import { projectRoot } from '../../../host/layout.ts'
import { gradescopeSchema } from '../../../instructors/class/formats/course-platforms.ts'
import { classSchema } from '../../../instructors/class/result.ts'
import { checkSubmission } from '../../../instructors/grading.ts'
import { ALICE, ALICE_POINTS, changedFile } from './made-submission.ts'
import { fileOf, removeWritten } from './tar-bytes.ts'

afterAll(removeWritten)

// Scripts run in a folder of their own, where no node_modules is found.
const folder = mkdtempSync(join(tmpdir(), 'labgrade-cli-'))
afterAll(() => rmSync(folder, { recursive: true }))

function run(
  script: string,
  args: string[],
  variables: Record<string, string> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...process.env, CLUSTER: 'embedded', NO_COLOR: '1', ...variables }
  const start = join(projectRoot, 'scripts/start.mjs')
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [start, `scripts/${script}`, ...args],
      { cwd: folder, env },
      (error, stdout, stderr) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    )
  })
}

const withOpenStep = () =>
  changedFile('erin', {
    text: (text, path) => (path.endsWith('ipvsadm-save') ? text.replace(/-w 1$/gm, '-w 5') : text),
  })

describe('check.ts on a submission', () => {
  const report = join(folder, 'report')

  test('judges it again and prints text, or JSON that matches the schema', async () => {
    const { code, stdout } = await run('check.ts', ['--capture', ALICE])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^alice, lab 2, handed in .*not signed/)
    expect(stdout).toContain('✓ flush')
    expect(await checkSubmission(ALICE, { json: true, output: report })).toBe(0)
    const { source, score, maxScore } = reportSchema.parse(JSON.parse(readFileSync(report, 'utf8')))
    expect([source.kind, score, maxScore]).toEqual(['submission', ALICE_POINTS, ALICE_POINTS])
  })

  test('exits non-zero for open steps, and zero with --report-only', async () => {
    const file = await withOpenStep()
    expect((await run('check.ts', ['--capture', file])).code).toBe(1)
    const harness = { format: 'gradescope', output: report, 'report-only': true }
    expect(await checkSubmission(file, harness)).toBe(0)
    const { score, tests } = gradescopeSchema.parse(JSON.parse(readFileSync(report, 'utf8')))
    expect(score).toBeLessThan(ALICE_POINTS)
    expect(tests.find(({ name }) => name.startsWith('virtual-servers'))?.status).toBe('failed')
  })

  test('exits 2 with one sentence for a file that is not a submission, or for another lab', async () => {
    const [broken, missing, second] = await Promise.all([
      run('check.ts', ['--capture', fileOf(Buffer.from('x'))]),
      run('check.ts', ['--capture', join(folder, 'nowhere\u001b[2J.labgrade')]),
      run('check.ts', ['--capture', ALICE, 'bob.labgrade']),
    ])
    expect([broken, missing, second].map(({ code }) => code)).toEqual([2, 2, 2])
    expect(second.stderr).toContain('"bob.labgrade" is not the number of a lab')
    expect(broken.stderr).toMatch(/"\S+\.labgrade" is refused\. .*(?:not a gzip|truncated)/)
    expect(missing.stderr).toMatch(/nowhere\S+\.labgrade" does not exist: give a folder/)
    expect(missing.stderr).not.toContain('\u001b[2J')
    for (const { stderr } of [broken, missing]) expect(stderr).not.toMatch(/^\s+at /m)
    await expect(checkSubmission(ALICE, { lab: '1' })).rejects.toThrow('is for lab 2')
    await expect(checkSubmission(ALICE, { format: 'xlsx' })).rejects.toThrow(
      '"xlsx" is not a format',
    )
  })
})

test('grade-class.ts: a class with a hostile file in it, every format, the key of the class', async () => {
  const keyFile = join(folder, 'class.key')
  expect((await run('class-key.ts', ['--new', keyFile])).code).toBe(0)
  expect((await run('class-key.ts', ['--new', keyFile])).stderr).toContain('exists already')
  const key = readClassKey(keyFile)
  const files = [
    await changedFile('alice', { key }),
    await changedFile('bob', {
      key: { kind: 'class', secret: Buffer.from('not the key of this class') },
    }),
    await changedFile('carol'),
    fileOf(Buffer.from('\u001b[2J'), 'dave-lab2.labgrade'),
  ]
  const at = (name: string) => join(folder, 'out', name)
  const formats = [
    'csv',
    'html',
    'json',
    'junit',
    'tap',
    'gradescope',
    'check50',
    'classroom50',
  ].flatMap((format) => [`--${format}`, at(format)])
  const { code, stdout } = await run('grade-class.ts', ['--key', keyFile, ...formats, ...files])
  expect(code).toBe(2)
  const result = classSchema.parse(JSON.parse(readFileSync(at('json'), 'utf8')))
  expect(result.graded.map(({ learner, signature }) => [learner, signature])).toEqual([
    ['alice', 'valid'],
  ])
  expect(result.refused.map(({ file }) => file).sort()).toEqual([
    'bob-lab2.labgrade',
    'carol-lab2.labgrade',
    'dave-lab2.labgrade',
  ])
  expect(stdout).toContain('Who did the work')
  expect(stdout).not.toContain('\u001b')
  for (const format of ['gradescope', 'check50', 'classroom50'])
    JSON.parse(readFileSync(join(at(format), 'alice-lab2.json'), 'utf8'))
  expect((await run('grade-class.ts', ['--report-only', '--quiet', ...files.slice(-1)])).code).toBe(
    0,
  )
  expect((await run('grade-class.ts', [])).stderr).toContain('nothing to grade')
  const open = await withOpenStep()
  const graded = await run('grade-class.ts', ['--class', 'spring', open])
  expect(graded.code, 'all were graded, though steps are open').toBe(0)
  expect(graded.stdout).toContain('erin, lab 2: All its captures lack the word of this class.')
  const odd = await run('grade-class.ts', ['--class', 'two words', ...files])
  expect([odd.code, odd.stderr]).toEqual([
    2,
    expect.stringContaining('"two words" can\'t be a class\'s word'),
  ])
})

test("a learner's part of the key signs for that learner and no other", async () => {
  const keyFile = fileOf(Buffer.from('the whole secret of a class\n'), 'class.key')
  const { stdout } = await run('class-key.ts', ['--key', keyFile, '--learner', 'alice'])
  expect(stdout.trim()).toBe(learnerKeyLine(readClassKey(keyFile), 'alice'))
  const own = join(folder, 'alice.key')
  writeFileSync(own, stdout)
  expect(readClassKey(own)).toMatchObject({ kind: 'learner', learner: 'alice' })
  expect(() => readClassKey(fileOf(Buffer.from('short')))).toThrow(/5 bytes: 16 is the least/)
  expect(() => readClassKey('/nowhere')).toThrow(/class-key.ts --new/)
})

describe('submit.ts without a cluster', () => {
  const submit = (variables: Record<string, string>) =>
    run('submit.ts', [], {
      NAME: '',
      LEARNER: '',
      LAB: '',
      CLUSTER_NAME: 'not-there',
      ...variables,
    })

  test('reports what is missing', async () => {
    const [unnamed, odd, nowhere, which] = await Promise.all([
      submit({}),
      submit({ NAME: '../alice' }),
      submit({ NAME: 'alice', LAB: '2' }),
      submit({ LEARNER: 'alice', NAME: 'not-there' }),
    ])
    expect([unnamed.code, odd.code, nowhere.code, which.code]).toEqual([2, 2, 2, 2])
    expect(unnamed.stderr).toContain('make submit LEARNER=alice LAB=2')
    expect(odd.stderr).toContain('"../alice" can\'t name a learner')
    expect(nowhere.stdout).toBe(
      'NAME=alice is used as the learner; write LEARNER=alice, as NAME is the cluster everywhere else.\n',
    )
    expect(which.stdout).toBe('')
    expect(nowhere.stderr).toContain(
      'The cluster "not-there" is not up and no capture of lab 2 was kept',
    )
    expect(which.stderr).toContain('Which lab? none was worked on yet')
  })
})
