import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSync } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cacheFolder, projectRoot, START } from '../../host/layout.ts'
import { plainJson, plainText, visibleText } from '../../host/plain-text.ts'
import { xmlText } from '../../instructors/class/formats/tables.ts'

/** What makes a terminal act, or hides or turns text. */
const ATTACKS = [
  '\x1b]0;title\x07',
  '\x1b[2J',
  '\x1b[8mhidden',
  '\x9b2J',
  '\x08',
  '\r',
  '\x7f',
  '\x00',
  '\x0e',
  '\x85',
  '\u202e',
  '\u2066',
  '\u200b',
  '\u200f',
  '\u2028',
  '\u2029',
  '\ufeff',
  '\u2060',
  '\u061c',
  '\u{e0041}',
]
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/u
/** CommonJS packages load Node's built-in modules with `require`. */
const REQUIRE = `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url)`
const attack = `evil${ATTACKS.join('')}end`

describe('visible text', () => {
  test('escapes every invisible character, and keeps all others', () => {
    for (const one of ATTACKS)
      for (const show of [visibleText, plainText, xmlText]) expect(show(one)).not.toMatch(UNSEEN)
    expect(visibleText('\x1b[31m\u202e\u{e0041}')).toBe('\\x1b[31m\\u202e\\u{e0041}')
    expect(visibleText('ä 😀 – “x”\n\ty')).toBe('ä 😀 – “x”\n\ty')
  })

  test('in JSON stays JSON', () => {
    expect(plainJson({ text: attack })).not.toMatch(UNSEEN)
    expect(JSON.parse(plainJson({ text: attack }))).toEqual({ text: attack })
  })
})

describe('what a script prints', () => {
  let folder: string
  const at = (name: string) => join(folder, name)
  beforeAll(() => {
    // A program finds its project by the folder that it is in.
    mkdirSync(cacheFolder, { recursive: true })
    folder = mkdtempSync(join(cacheFolder, 'output-'))
    const recorded = join(projectRoot, 'data/recordings/v1.30.3/iptables/web-clusterip')
    cpSync(recorded, at('node'), { recursive: true })
    // A comment of a rule, and a Service's name.
    const rules = readFileSync(join(recorded, 'iptables-save'), 'utf8')
    writeFileSync(
      at('node/iptables-save'),
      rules.replaceAll('default/web', `default/web${attack.replace('\0', '')}`),
    )
    const program = `import { main, Refusal } from ${JSON.stringify(join(projectRoot, 'host/main.ts'))}
import { chalk } from ${JSON.stringify(join(projectRoot, 'node_modules/zx/build/core.js'))}
import { createProgress } from ${JSON.stringify(join(projectRoot, 'host/progress.ts'))}
import { printResult } from ${JSON.stringify(join(projectRoot, 'host/output.ts'))}
const attack = ${JSON.stringify(attack)}
await main(async () => {
  console.log(chalk.green('ours'), attack)
  console.error(attack)
  process.stdout.write(Buffer.from(attack))
  createProgress().start(attack)
  createProgress().note(attack)
  if (process.argv[2] === 'result') return printResult({ stdout: attack, stderr: '' })
  const error = new Refusal(attack)
  throw error
})`
    buildSync({
      stdin: { contents: program, resolveDir: projectRoot, loader: 'ts' },
      outfile: at('program.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      banner: { js: REQUIRE },
    })
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  const run = (args: string[], env: Record<string, string> = {}) => {
    const { NO_COLOR: _, FORCE_COLOR: __, ...own } = process.env
    return spawnSync(process.execPath, args, {
      cwd: projectRoot,
      encoding: 'utf8',
      env: { ...own, ...env },
    })
  }

  test.each([
    ['without colours', {}, 'ours'],
    ['with NO_COLOR', { FORCE_COLOR: '1', NO_COLOR: '1', NODE_NO_WARNINGS: '1' }, 'ours'],
    ['with colours', { FORCE_COLOR: '1', DEBUG: '1' }, '\x1b[32mours\x1b[39m'],
  ])('is visible text, %s: lines, errors, progress', (_what, env, ours) => {
    const { status, stdout, stderr } = run([at('program.mjs')], env)
    expect(status).toBe(2)
    expect(stdout).toContain(`${ours} evil\\x1b]0;title\\x07\\x1b[2J`)
    for (const text of [stdout, stderr]) expect(text.replace(/\x1b\[\d+m/g, '')).not.toMatch(UNSEEN)
  })

  test('the output of a command on a node is written to a pipe unchanged', () => {
    expect(run([at('program.mjs'), 'result']).stdout.endsWith(attack)).toBe(true)
  })

  test.each([
    ['a trace', ['scripts/trace.ts', '--from', 'host', '--to', '10.96.119.228:80', '-v']],
    [
      'a trace as JSON',
      ['scripts/trace.ts', '--from', 'host', '--to', '10.96.119.228:80', '--json'],
    ],
    [
      'a trace to nowhere',
      ['scripts/trace.ts', '--from', 'host', '--to', attack.replace('\0', '')],
    ],
    ['a help that is not there', ['scripts/trace.ts', `--${attack.replace('\0', '')}`]],
  ])('is visible text: %s', (_what, [script = '', ...argv]) => {
    const { stdout, stderr } = run([START, script, '--capture', at('node'), ...argv], {
      FORCE_COLOR: '1',
    })
    expect(stdout + stderr).toContain('evil')
    for (const text of [stdout, stderr]) expect(text.replace(/\x1b\[\d+m/g, '')).not.toMatch(UNSEEN)
  })
})
