// The walks of docs/ARCHITECTURE.md: each file and name in their steps exists, and is reached from
// the walk's first file.

import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'
import { files, folderOf, imports, layers, textOf } from './import-graph.ts'

const document = readFileSync(join(projectRoot, 'docs/ARCHITECTURE.md'), 'utf8')
const sections = document.split(/^## /m).filter((section) => section.startsWith('Walk '))
const walks = sections.map((section) => ({
  title: section.split('\n')[0] ?? '',
  steps:
    section
      .split(/^\d+\. /m)
      .slice(1)
      .join('')
      .split(/\n\n/)[0] ?? '',
}))

const codeIn = (markdown: string): string[] =>
  [...markdown.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

/** Files that are loaded by the name of a lab's folder: import(`../checks/${folder}.check.ts`). */
const loadedByName = (file: string): string[] =>
  [...textOf(file).matchAll(/import\(\s*`(\.[^`]+\.ts)`/g)].flatMap(([, target = '']) => {
    const parts = join(dirname(file), target).split(/\$\{[^}]*\}/)
    const pattern = new RegExp(
      `^${parts.map((part) => part.replaceAll('.', '\\.')).join('[^/]+')}$`,
    )
    return files.filter((other) => pattern.test(other))
  })

/** Adds a file and all that it imports. */
function reach(start: string, reached: Set<string>): void {
  const added = new Set([start])
  for (const file of added) {
    if (reached.has(file)) continue
    reached.add(file)
    for (const target of [...(imports.get(file) ?? []), ...loadedByName(file)]) added.add(target)
  }
}

/** Whether one of these files declares a function, class, type or method of this name. */
function isDeclared(name: string, among: ReadonlySet<string>): boolean {
  const declaration = new RegExp(
    `\\b(?:function|const|class|interface|type) ${name}\\b|^ {2}(?:async )?${name}(?:<.*>)?\\(`,
    'm',
  )
  return [...among].some((file) => declaration.test(textOf(file)))
}

/**
 * Whether a file of the walk, or a folder with a slash at its end, is on the path; a program that a
 * file of the path starts extends it.
 */
function isOnPath(name: string, reached: Set<string>): boolean {
  if (name.endsWith('/')) return [...reached].some((file) => file.startsWith(name))
  if (!name.includes('/'))
    return [...reached].filter((file) => file.endsWith(`/${name}`)).length === 1
  if (!name.endsWith('.ts')) return existsSync(join(projectRoot, name))
  const isStarted = () => [...reached].some((file) => textOf(file).includes(`'${name}'`))
  if (files.includes(name) && !reached.has(name) && isStarted()) reach(name, reached)
  return reached.has(name)
}

const FILE = /^[\w./-]+\.(?:ts|tsx|yaml|sh|pl)$/
const isPlace = (code: string) =>
  FILE.test(code) || (/^[\w./-]+\/$/.test(code) && layers.includes(folderOf(code)))
/** `predict()`, `Trouble`, and each name of `expectNodes(nodes).sets('NAME')`. */
const namesIn = (code: string): string[] =>
  /^[A-Z][a-z]\w*$/.test(code)
    ? [code]
    : [...code.matchAll(/(?:^|\.)([a-z]\w*)\(/g)].map(([, name = '']) => name)

/** What a walk names that is not on the path from its first file. */
function strayIn(steps: string): string[] {
  const codes = codeIn(steps)
  const reached = new Set<string>()
  reach(codes.find((code) => FILE.test(code)) ?? '', reached)
  return codes.flatMap((code) => {
    if (isPlace(code)) return isOnPath(code, reached) ? [] : [code]
    return namesIn(code).filter((name) => !isDeclared(name, reached))
  })
}

test('two walks are found, with their files and names', () => {
  expect(walks.map(({ title }) => title)).toEqual([
    'Walk 1: from a Service object to a verdict',
    'Walk 2: from `make ipvs` to the node',
  ])
  const codes = walks.map(({ steps }) => codeIn(steps))
  expect(codes.map((all) => all.filter(isPlace).length >= 12)).toEqual([true, true])
  expect(codes.flat().flatMap(namesIn)).toEqual(
    expect.arrayContaining(['stateOf', 'Trouble', 'expectNodes', 'equalPrediction']),
  )
})

test.each(walks)('$title: each file and name is on the path from its first file', ({ steps }) => {
  expect(strayIn(steps)).toEqual([])
})

test.each([
  ['grading/judge.ts', 'grading/judges.ts'],
  ['grading/judge.ts', 'slides/build/write.ts'],
  ['equalPrediction(', 'equalsPrediction('],
  ['`Trouble`', '`Troubles`'],
])('a walk with another name than %s is found', (name, other) => {
  const [{ steps } = { steps: '' }] = walks
  expect(steps).toContain(name)
  expect(strayIn(steps.replace(name, other))).toHaveLength(1)
})
