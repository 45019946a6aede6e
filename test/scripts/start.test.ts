import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const folders = [
  'bench',
  'checks',
  'cluster',
  'course',
  'dataplane',
  'embedded',
  'grading',
  'instructors',
  'labs',
  'scripts',
  'slides',
]
const checkout = mkdtempSync(join(tmpdir(), 'a checkout '))
const write = (file: string, text: string) => writeFileSync(join(checkout, file), text)
const needNode = (node: string) =>
  write('package.json', JSON.stringify({ type: 'module', engines: { node } }))

beforeAll(() => {
  for (const folder of folders) mkdirSync(join(checkout, folder))
  for (const file of ['scripts/start.mjs', 'host'])
    cpSync(join(projectRoot, file), join(checkout, file), { recursive: true })
  symlinkSync(join(projectRoot, 'node_modules'), join(checkout, 'node_modules'))
  needNode('>=20.19')
  write('labs/greeting.ts', "export const greeting: string = 'good morning'\n")
  write('labs/fault.ts', "export const fault: string = 'none'\n")
  write(
    'scripts/greet.ts',
    "import { projectRoot } from '../host/layout.ts'\nimport { greeting } from '../labs/greeting.ts'\nconsole.log(greeting, projectRoot, process.argv.slice(1).join('|'))\nprocess.exitCode = 3\n",
  )
  write(
    'scripts/other.ts',
    "const module = await import('../labs/fault.ts')\nconsole.log(module.fault)\n",
  )
})
afterAll(() => rmSync(checkout, { recursive: true, force: true }))

const run = (...args: string[]) =>
  spawnSync(process.execPath, [join(checkout, 'scripts/start.mjs'), ...args], {
    cwd: tmpdir(),
    encoding: 'utf8',
  })
function start(script: string, ...args: string[]) {
  const { status, stdout } = run(script, ...args)
  return { status, stdout: stdout.trim() }
}
const programs = join(checkout, '.cache/programs')
const bundles = () => readdirSync(programs)

const outputOf = (greeting: string, text: string) => ({
  status: 3,
  stdout: `${greeting} ${checkout} ${checkout}/scripts/greet.ts${text}`,
})

test('a script runs from the bundle with its words, place and exit code, and a change of a source is seen', () => {
  expect(start('scripts/greet.ts', 'a b', "it's")).toEqual(outputOf('good morning', "|a b|it's"))
  const [first] = bundles()
  expect(start('scripts/greet.ts')).toEqual(outputOf('good morning', ''))
  expect(bundles()).toEqual([first])
  write('labs/greeting.ts', "export const greeting: string = 'good evening'\n")
  expect(start('scripts/greet.ts')).toEqual(outputOf('good evening', ''))
})

test('a script that loads the sources of the course finds them, too', () => {
  const args = [join(projectRoot, 'scripts/start.mjs'), 'scripts/lint-labs.ts']
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: projectRoot,
    encoding: 'utf8',
  })
  expect(stdout).toContain('no complaints')
  expect(status).toBe(0)
})

test('a script whose packages cannot be bundled is loaded', () => {
  const args = [join(projectRoot, 'scripts/start.mjs'), 'scripts/slides.ts', '--present']
  const env = { ...process.env, PORT: 'none' }
  const { status, stderr } = spawnSync(process.execPath, args, {
    cwd: projectRoot,
    encoding: 'utf8',
    env,
  })
  expect({ status, stderr }).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^ ✗ "none" is not a port/),
  })
})

test('deprecation warnings of Node.js are not shown', () => {
  write(
    'scripts/deprecated.ts',
    "process.emitWarning('old', 'DeprecationWarning', 'DEP0040')\nconsole.log('done')\n",
  )
  const { stdout, stderr } = run('scripts/deprecated.ts')
  expect({ stdout, stderr }).toEqual({ stdout: 'done\n', stderr: '' })
})

test('a source with a syntax error affects only the scripts that import it', () => {
  write('labs/fault.ts', 'export const fault: = 1\n')
  expect(start('scripts/greet.ts')).toEqual(outputOf('good evening', ''))
  expect(start('scripts/other.ts').status).toBe(1)
})

describe('the Node.js that package.json asks for', () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  afterAll(() => needNode('>=20.19'))

  test.each([
    `^${major}.${minor}`,
    `>=${major}.${minor}`,
    `>=${major - 1}.${minor + 1}`,
    `^${major - 2}.0 || >=${major}.${minor}`,
    `^${major}.${minor} || >=${major + 2}.0`,
  ])('%s is this one', (range) => {
    needNode(range)
    expect(run()).toMatchObject({ status: 0, stdout: '', stderr: '' })
  })

  test.each([
    `^${major}.${minor + 1}`,
    `>=${major}.${minor + 1}`,
    `>=${major + 1}.0`,
    `^${major - 1}.0 || >=${major + 1}.0`,
    `^${major + 1}.0`,
  ])('%s is another one, refused in one sentence before anything is loaded', (range) => {
    needNode(range)
    const { status, stdout, stderr } = run('scripts/greet.ts')
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(stderr).toBe(
      ` ✗ This is Node.js ${process.versions.node}, and "${range}" is needed: install Node.js 24, for example with \`nvm install 24\`, and run the command again.\n`,
    )
  })

  test('is what the README and continuous integration name', () => {
    const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8')
    const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
    const [, oldest, next] = /^\^(\d+\.\d+) \|\| >=(\d+\.\d+)$/.exec(engines.node) ?? []
    const versions = [
      ...read('.github/workflows/ci.yml').matchAll(/node(?:-version)?: (\[.*\]|\d+)/g),
    ]
    const [matrix = [], ...jobs] = versions.map(([, version = '']) =>
      [JSON.parse(version)].flat().map(String),
    )
    const [recommended] = jobs.flat()
    expect(new Set(jobs.flat()).size).toBe(1)
    expect(matrix).toEqual([oldest, next?.split('.')[0], recommended, expect.any(String)])
    expect(read('README.md')).toContain(
      `Node.js ${recommended} (${oldest}, or ${next} and newer, works too)`,
    )
    expect(read('scripts/start.mjs')).toContain(`nvm install ${recommended}`)
  })
})

describe('a damaged bundle is made again', () => {
  /** The file of the bundle that the script runs from. */
  const program = () => {
    rmSync(programs, { recursive: true })
    start('scripts/greet.ts')
    return join(programs, bundles()[0] ?? '', 'scripts/greet.js')
  }
  const folderAt = (path: string) => {
    rmSync(path)
    mkdirSync(path)
  }
  const fileAt = (path: string) => {
    rmSync(path, { recursive: true })
    writeFileSync(path, '')
  }
  const flip = (file: string) => {
    const bytes = readFileSync(file)
    const at = bytes.indexOf('good')
    bytes[at] = 'f'.charCodeAt(0)
    writeFileSync(file, bytes)
  }
  test.each<[string, (file: string) => void]>([
    ['a byte flipped', flip],
    ['truncated', (file) => truncateSync(file, 10)],
    ['empty', (file) => truncateSync(file, 0)],
    ['missing', (file) => rmSync(file)],
    ['a folder in its place', (file) => folderAt(file)],
    ['a file in place of the whole folder', (file) => fileAt(dirname(dirname(file)))],
    [
      'a list of its files that is empty',
      (file) => writeFileSync(join(dirname(dirname(file)), 'files'), ''),
    ],
  ])('%s', (_fault, damage) => {
    write('labs/fault.ts', "export const fault: string = 'none'\n")
    const file = program()
    damage(file)
    expect(start('scripts/greet.ts')).toEqual(outputOf('good evening', ''))
    expect(readFileSync(file, 'utf8')).toContain('good evening')
  })
})

test('commands that begin at the same time, before there is a bundle, all run from it', async () => {
  rmSync(programs, { recursive: true, force: true })
  const once = () =>
    new Promise<number | null>((ended) => {
      const args = [join(checkout, 'scripts/start.mjs'), 'scripts/greet.ts']
      spawn(process.execPath, args, { stdio: 'ignore' }).once('exit', ended)
    })
  expect(await Promise.all([once(), once(), once(), once()])).toEqual([3, 3, 3, 3])
  expect(bundles()).toHaveLength(1)
})
