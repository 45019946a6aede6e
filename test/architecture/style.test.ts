import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const biome = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'))

const RULE = 'noExcessiveCognitiveComplexity'
const limits = [biome.linter, ...biome.overrides.map((one: { linter: unknown }) => one.linter)]
  .map(({ rules }) => rules.complexity?.[RULE])
  .filter((rule) => rule !== undefined)

test('functions have a cognitive complexity of at most 15, in listed files of at most 25', () => {
  expect(limits.map(({ level, options }) => [level, options.maxAllowedComplexity])).toEqual([
    ['error', 15],
    ['error', 25],
  ])
})

test('the files that may go to 25 are named one by one, and exist', () => {
  const listed: string[] = biome.overrides
    .filter(({ linter }: typeof biome) => linter.rules.complexity?.[RULE])
    .flatMap(({ includes }: { includes: string[] }) => includes)
  expect(listed.filter((file) => !existsSync(join(root, file)))).toEqual([])
})

test('private members are #names: `private` is only for constructors', () => {
  const files = execFileSync('git', ['ls-files', '-z', '*.ts', '*.tsx'], { cwd: root })
    .toString()
    .split('\0')
    .filter((file) => file !== '' && existsSync(join(root, file)))
  expect(files.length).toBeGreaterThan(500)
  const found = files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        /^\s+(?:static\s+)?private\s+(?!constructor\b)[\w#]/.test(line)
          ? `${file}:${index + 1}`
          : [],
      ),
  )
  expect(found).toEqual([])
})
