import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { spawn } from '@lydell/node-pty'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const targets = [
  ...readFileSync(join(projectRoot, 'Makefile'), 'utf8').matchAll(/^([a-z][\w%-]*):.* ## /gm),
].map((match) => match[1] ?? '')
const patterns = targets.filter((target) => target.includes('%'))

/** Every variable that our programs read, and some that they do not. */
function variables(): string[] {
  const strangers = ['node_modules', 'test', 'dist', 'captures', 'submissions']
  const folders = readdirSync(projectRoot, { withFileTypes: true }).filter(
    (entry) =>
      entry.isDirectory() && !entry.name.startsWith('.') && !strangers.includes(entry.name),
  )
  const sources = folders.flatMap(({ name }) => {
    const folder = join(projectRoot, name)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.ts'),
    )
    return files.map((file) => readFileSync(join(folder, file), 'utf8'))
  })
  const read = sources.flatMap((text) =>
    [...text.matchAll(/(?:process\.env\.|isOn\(')([A-Z_]+)/g)].map((match) => match[1] ?? ''),
  )
  const others = [
    'Q',
    'A',
    'LAB',
    'SEED',
    'INCIDENT',
    'STEP',
    'TIER',
    'FROM',
    'TO',
    'STEM',
    'RUN',
    'FOO',
  ]
  return [...new Set([...read, ...others])].filter((name) => name !== 'PATH' && name !== 'SHELL')
}

let folder: string
let canary: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'makefile-'))
  canary = join(folder, 'canary')
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  cpSync(join(projectRoot, 'Makefile'), join(folder, 'Makefile'))
  for (const file of ['package.json', 'package-lock.json', 'node_modules/.package-lock.json'])
    writeFileSync(join(folder, file), '')
  // In place of the programs: writes down what reached it.
  const note = '#!/bin/sh\n{ printf "%s\\0" "$@" ==; env -0; printf "==\\0"; } >>calls\n'
  for (const program of ['node', 'node_modules/.bin/vitest'])
    writeFileSync(join(folder, program), note, { mode: 0o755 })
})
afterAll(() => rmSync(folder, { recursive: true }))

interface Call {
  args: string[]
  env: Map<string, string>
}

/** Runs make in the folder. Returns what it called, in turn. */
function make(args: string[], env: Record<string, string> = {}): Call[] {
  const path = `${folder}${delimiter}${process.env.PATH}`
  const { status, stderr } = spawnSync('make', args, {
    cwd: folder,
    env: { PATH: path, ...env },
    encoding: 'utf8',
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const parts = readFileSync(join(folder, 'calls'), 'utf8').split('==\0')
  rmSync(join(folder, 'calls'))
  const items = (text = '') => text.split('\0').slice(0, -1)
  return Array.from({ length: (parts.length - 1) / 2 }, (_, at) => ({
    args: items(parts[2 * at]),
    env: new Map(
      items(parts[2 * at + 1]).map((line) => [
        line.slice(0, line.indexOf('=')),
        line.slice(line.indexOf('=') + 1),
      ]),
    ),
  }))
}

describe('values typed after make are text', () => {
  test.each(['after the target', 'before make'])(
    'every target passes on every variable unchanged, given %s',
    (where) => {
      const text = `a;touch ${canary} $(touch ${canary}) $(shell touch ${canary}) \`touch ${canary}\` $HOME $$ "'\\ # |\ntouch ${canary}& `
      const input = variables()
      expect(input).toEqual(
        expect.arrayContaining(['NAME', 'CLUSTER', 'DIR', 'IMAGE', 'NODE', 'CMD', 'STEP', 'YES']),
      )
      const goals = targets
        .filter((target) => target !== 'help')
        .map((target) => target.replace('%', '2'))
      const calls =
        where === 'before make'
          ? make(goals, Object.fromEntries(input.map((name) => [name, text])))
          : make([...goals, ...input.map((name) => `${name}=${text}`)])
      expect(existsSync(canary)).toBe(false)
      expect(calls).toHaveLength(goals.length)
      for (const { args: argv, env } of calls) {
        // The Makefile sets these itself, whatever the caller gives.
        const own = ['STEM', 'RUN']
        expect(input.filter((name) => env.get(name) !== text && !own.includes(name))).toEqual([])
        const strange = argv.filter((word) => /touch/.test(word) && !word.endsWith(text))
        expect(strange).toEqual([])
      }
    },
  )

  test.each(patterns)('the number in %s reaches the script unchanged', (target) => {
    const stems = [
      ';touch canary',
      '$(touch canary)',
      '$(shell touch canary)',
      '`touch canary`',
      '2\ntouch canary',
      '"\'\\ #',
    ]
    const calls = make(stems.map((stem) => target.replace('%', () => stem)))
    expect(existsSync(canary)).toBe(false)
    expect(calls.map(({ args: options }) => options[2])).toEqual(stems)
  })

  test('a script gets the options that were given, and no others', () => {
    const terms = (typed: string[], env = {}) => make(typed, env)[0]?.args.slice(1)
    expect(terms(['check-2'])).toEqual(['scripts/grade.ts', '2'])
    expect(terms(['check-2', 'STEP=web'])).toEqual(['scripts/grade.ts', '2', '--step=web'])
    expect(terms(['check-2', 'STEM=3'])).toEqual(['scripts/grade.ts', '2'])
    expect(terms(['hint'], { LAB: '2', TIER: '1' })).toEqual(['scripts/hint.ts', '2', '--tier=1'])
    expect(terms(['trace', 'FROM=pod/a b', 'TO=-x'])).toEqual([
      'scripts/trace.ts',
      '--from=pod/a b',
      '--to=-x',
    ])
    expect(terms(['release', 'VERSION=0.2.0'])).toEqual(['scripts/release.ts'])
    expect(terms(['lint-labs', 'BOOT=1'])).toEqual(['scripts/lint-labs.ts'])
  })
})

describe('what is misspelt is refused', () => {
  const refused = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync('make', args, {
      cwd: projectRoot,
      encoding: 'utf8',
    })
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    return stderr
  }

  test.each([
    ['wbe', 'make web'],
    ['ivps', 'make ipvs'],
    ['lab2', 'make lab-2'],
    ['chek-13', 'make check-13'],
    ['flush_nat', 'make flush-nat'],
  ])('make %s: the nearest target is named', (goal, target) =>
    expect(refused(goal)).toContain(`✗ There is no target "${goal}": did you mean \`${target}\`?`),
  )

  test('a goal that is far from every target, also a hostile one, is quoted as text', () => {
    expect(refused('gibberish-of-a-user')).toContain('": `make` lists all.')
    const goal = `a;touch ${canary} $(shell touch ${canary}) \`touch ${canary}\``
    expect(refused(goal.replaceAll('\n', ''))).toContain('There is no target "a;touch')
    expect(existsSync(canary)).toBe(false)
  })

  test.each([
    ['check-2', 'step=web', 'STEP='],
    ['release', 'version=0.2.0', 'VERSION='],
    ['trace', 'from=host', 'FROM='],
    ['ipvs', 'kube_proxy_version=1.20', 'KUBE_PROXY_VERSION='],
  ])('make %s %s: the right spelling is named', (goal, input, right) =>
    expect(refused(goal, input)).toContain(`write ${right} instead of`),
  )

  test('every variable that the list of targets names is refused in small letters', () => {
    const help = readFileSync(join(projectRoot, 'Makefile'), 'utf8').match(/ ## .*/g) ?? []
    const named = new Set(help.join('\n').match(/\b[A-Z][A-Z_]*(?==)/g))
    expect(named.size).toBeGreaterThan(30)
    for (const name of named)
      expect(refused('help', `${name.toLowerCase()}=1`)).toContain(`write ${name}= instead of`)
  })
})

describe('the list of targets', () => {
  /**
   * What `make help` prints on a terminal of this width. The shell waits, because output is lost
   * when the last process ends.
   */
  const onTerminal = (cols: number) =>
    new Promise<string[]>((resolve) => {
      const terminal = spawn('sh', ['-c', 'make help; read end'], {
        cwd: projectRoot,
        cols,
        rows: 24,
      })
      let text = ''
      terminal.onData((part) => {
        text += part
        if (!text.includes('Show this list')) return
        terminal.kill()
        resolve(text.replaceAll('\r', '').trimEnd().split('\n'))
      })
    })

  test.each([60, 80])(
    'is wrapped at words, below the descriptions, on a terminal of %i columns',
    async (columns) => {
      const piped = spawnSync('make', ['help'], { cwd: projectRoot, encoding: 'utf8' })
        .stdout.trimEnd()
        .split('\n')
      expect(piped.filter((line) => line.startsWith('  '))).toHaveLength(targets.length)
      const wrapped = await onTerminal(columns)
      expect(wrapped.filter((line) => line.length > columns)).toEqual([])
      expect(wrapped.some((line) => /^ {19}\S/.test(line))).toBe(true)
      expect(wrapped.join('\n').replace(/\n {19}(?=\S)/g, ' ')).toBe(piped.join('\n'))
    },
  )
})
