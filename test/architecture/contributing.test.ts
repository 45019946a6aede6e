// CONTRIBUTING.md tells which files and tests belong to a kind of change: all of them exist.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8')
const labs = readdirSync(join(projectRoot, 'labs')).filter((name) => /^\d\d-/.test(name))
const rows = [...read('CONTRIBUTING.md').matchAll(/^\| ([a-z].*?) \| (.+) \| (.+) \|$/gm)].map(
  ([, change = '', changed = '', tests = '']) => ({ change, cells: [changed, tests] }),
)
const quotedIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, quoted = '']) => quoted)

/** The paths in a quoted text: a path itself, or the arguments of a command. */
const pathsIn = (quoted: string): string[] =>
  quoted
    .split(' ')
    .filter((word) => /^[\w.-]+(?:\/[\w.-]+)+$|^[\w-]+\.md$|^Makefile$/.test(word))
    .filter((word) => !word.includes('#'))

/** Every lab has a file that is named for all of them. */
const exists = (path: string): boolean =>
  labs.every((lab) => existsSync(join(projectRoot, path.replace('NN-name', lab))))

test('the table has the kinds of change that people ask for, each with files and tests', () => {
  expect(rows.length).toBeGreaterThanOrEqual(15)
  for (const { change, cells } of rows)
    for (const cell of cells) expect(quotedIn(cell), change).not.toEqual([])
})

describe.each(rows)('to $change', ({ cells }) => {
  const quoted = cells.flatMap(quotedIn)

  test('the files and folders exist', () => {
    expect(quoted.flatMap(pathsIn).filter((path) => !exists(path))).toEqual([])
  })

  test('the targets exist', () => {
    const targets = [...read('Makefile').matchAll(/^([a-z][\w%-]*):/gm)].map(
      ([, name = '']) => name,
    )
    const named = quoted.flatMap((text) => /^make ([\w-]+)/.exec(text)?.[1] ?? [])
    expect(named.filter((name) => !targets.includes(name.replace(/-\d+$/, '-%')))).toEqual([])
  })
})
