import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const checkout = mkdtempSync(join(tmpdir(), 'a checkout '))
const write = (file: string, text: string) => writeFileSync(join(checkout, file), text)

beforeAll(() => {
  for (const folder of ['checks', 'cluster', 'dataplane', 'labs', 'scripts', 'slides'])
    mkdirSync(join(checkout, folder))
  for (const file of ['scripts/start.mjs', 'scripts/bundle-scripts.ts', 'host/bundle.ts', 'host/layout.ts'])
    cpSync(join(projectRoot, file), join(checkout, file))
  symlinkSync(join(projectRoot, 'node_modules'), join(checkout, 'node_modules'))
  write('package.json', '{ "type": "module" }')
  write('labs/greeting.ts', "export const greeting: string = 'good morning'\n")
  write('labs/fault.ts', 'export const fault: string = import.meta.dirname\n')
  write(
    'scripts/greet.ts',
    "import { greeting } from '../labs/greeting.ts'\nconsole.log(greeting, import.meta.dirname, process.argv.slice(1).join('|'))\nprocess.exitCode = 3\n",
  )
  write('scripts/other.ts', "const module = await import('../labs/fault.ts')\nconsole.log(module.fault)\n")
})
afterAll(() => rmSync(checkout, { recursive: true, force: true }))

function start(script: string, ...words: string[]) {
  const { status, stdout } = spawnSync(process.execPath, [join(checkout, 'scripts/start.mjs'), script, ...words], {
    cwd: tmpdir(),
    encoding: 'utf8',
  })
  return { status, stdout: stdout.trim() }
}
const bundles = () => readdirSync(join(checkout, '.cache/programs'))

const scripts = join(checkout, 'scripts')
const said = (greeting: string, words: string) => ({
  status: 3,
  stdout: `${greeting} ${scripts} ${scripts}/greet.ts${words}`,
})

test('a script runs from the bundle with its words, place and exit code, and a change of a source is seen', () => {
  expect(start('scripts/greet.ts', 'a b', "it's")).toEqual(said('good morning', "|a b|it's"))
  const [first] = bundles()
  expect(start('scripts/greet.ts')).toEqual(said('good morning', ''))
  expect(bundles()).toEqual([first])
  write('labs/greeting.ts', "export const greeting: string = 'good evening'\n")
  expect(start('scripts/greet.ts')).toEqual(said('good evening', ''))
})

test('a script that loads the sources of the course finds them, too', () => {
  const words = [join(projectRoot, 'scripts/start.mjs'), 'scripts/lint-labs.ts']
  const { status, stdout } = spawnSync(process.execPath, words, { cwd: projectRoot, encoding: 'utf8' })
  expect(stdout).toContain('nothing to complain of')
  expect(status).toBe(0)
})

test('a source with a fault spoils only the scripts that need it', () => {
  write('labs/fault.ts', 'export const fault: = 1\n')
  expect(start('scripts/greet.ts')).toEqual(said('good evening', ''))
  expect(start('scripts/other.ts').status).toBe(1)
})
