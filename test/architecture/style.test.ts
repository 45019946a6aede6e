import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const biome = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'))

/** The formatter breaks code at this width, but no comment. */
const WIDTH: number = biome.formatter.lineWidth

const files = execFileSync('git', ['ls-files', '-z', '*.ts', '*.tsx'], { cwd: root })
  .toString()
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)))

/** `FILE:LINE` of each line that is meant. */
const linesWhere = (isMeant: (line: string) => boolean): string[] =>
  files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) => (isMeant(line) ? `${file}:${index + 1}` : [])),
  )

test('every function has a cognitive complexity of at most 15, without exceptions', () => {
  const rule = 'noExcessiveCognitiveComplexity'
  const limits = [biome.linter, ...biome.overrides.map((one: { linter: unknown }) => one.linter)]
    .map(({ rules }) => rules.complexity?.[rule])
    .filter((limit) => limit !== undefined)
  expect(limits.map(({ level, options }) => [level, options.maxAllowedComplexity])).toEqual([
    ['error', 15],
  ])
  expect(linesWhere((line) => line.includes(`biome-ignore lint/complexity/${rule}`))).toEqual([])
})

test('private members are #names: `private` is only for constructors', () => {
  expect(files.length).toBeGreaterThan(500)
  expect(
    linesWhere((line) => /^\s+(?:static\s+)?private\s+(?!constructor\b)[\w#]/.test(line)),
  ).toEqual([])
})

test('lines of comments have at most 100 characters, as the formatter breaks code', () => {
  expect(WIDTH).toBe(100)
  const isComment = (line: string) => /^\s*(?:\/\/|\/?\*)/.test(line)
  expect(linesWhere((line) => isComment(line) && [...line].length > WIDTH)).toEqual([])
})

test('no object is spread where it is written: that would only steer the formatter', () => {
  expect(linesWhere((line) => /\.\.\.\{/.test(line))).toEqual([])
})
