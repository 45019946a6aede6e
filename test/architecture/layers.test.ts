// Who may import whom. docs/ARCHITECTURE.md draws it; types count, tests do not.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'
import { files, folderOf, imports, layers, TOP } from './import-graph.ts'

/** A product of its own is entered by its front door. */
const ENTRY = 'embedded/index.ts'

const arrows = [...imports].flatMap(([file, targets]) =>
  targets.map((target) => [file, target] as const),
)

test('no folder imports from one above it, and nothing imports from a command', () => {
  const upward = arrows.filter(([file, target]) => {
    const [from, to] = [folderOf(file), folderOf(target)]
    return (
      from !== to &&
      ((TOP.includes(to) && to !== 'bench') || layers.indexOf(to) > layers.indexOf(from))
    )
  })
  expect(upward.map((arrow) => arrow.join(' -> '))).toEqual([])
})

test('dataplane knows nothing of this machine', () => {
  const impure = arrows.filter(
    ([file, target]) => folderOf(file) === 'dataplane' && folderOf(target) !== 'dataplane',
  )
  const io = files.filter(
    (file) =>
      folderOf(file) === 'dataplane' &&
      /from '(node:(fs|child_process|net|http)|zx)/.test(
        readFileSync(join(projectRoot, file), 'utf8'),
      ),
  )
  expect([...impure.map((arrow) => arrow.join(' -> ')), ...io]).toEqual([])
})

test('the embedded cluster is entered by its entry file alone', () => {
  const past = arrows.filter(
    ([file, target]) =>
      folderOf(file) !== 'embedded' && folderOf(target) === 'embedded' && target !== ENTRY,
  )
  expect(past.map((arrow) => arrow.join(' -> '))).toEqual([])
})

test('no imports go in a circle', () => {
  const done = new Set<string>()
  const circles: string[] = []
  const walk = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file)
    if (at >= 0) circles.push([...path.slice(at), file].join(' -> '))
    if (at >= 0 || done.has(file)) return
    for (const target of imports.get(file) ?? []) walk(target, [...path, file])
    done.add(file)
  }
  for (const file of files) walk(file, [])
  expect(circles).toEqual([])
})

/**
 * What a file loads when it is imported: not what it imports as a type, or loads later by
 * `import(…)`.
 */
function loadedBy(file: string): string[] {
  const text = readFileSync(join(projectRoot, file), 'utf8')
  const statements = [...text.matchAll(/^(?:import|export) (?!type )([^'`]*?) from '([^']+)'/gm)]
  const values = statements.filter(
    ([, names = '']) => /[{,]\s*(?!type )\w/.test(names) || !names.startsWith('{'),
  )
  return values.map(([, , target = '']) =>
    target.startsWith('.') ? join(dirname(file), target) : target,
  )
}

/** All that a program loads when it starts. */
function loadedAtStartOf(program: string): Set<string> {
  const loaded = new Set([program])
  for (const file of loaded)
    if (imports.has(file)) for (const target of loadedBy(file)) loaded.add(target)
  return loaded
}

test('a check of a learner goes to grading/ and no further', () => {
  const loaded = [...loadedAtStartOf('scripts/grade.ts')].filter((file) => imports.has(file))
  expect(loaded).toContain('grading/grader.ts')
  const beyond = layers.slice(layers.indexOf('grading') + 1)
  expect(
    loaded.filter((file) => file !== 'scripts/grade.ts' && beyond.includes(folderOf(file))),
  ).toEqual([])
})

test.each(['down', 'env', 'exec', 'status', 'up'])(
  '%s starts without schemas, YAML and the client of the API',
  (name) => {
    const loaded = loadedAtStartOf(`scripts/${name}.ts`)
    expect(loaded).toContain('embedded/index.ts')
    expect([...loaded].filter((one) => /^(zod|yaml|@kubernetes\/.*)$/.test(one))).toEqual([])
  },
)

test('above cluster/, a driver is asked for its capabilities, and no code depends on its name', () => {
  const BY_NAME =
    /(?<!choice)\.driver\s*[!=]==|\bdriver\s*[!=]==\s*'|instanceof (?:Embedded|Kind|Context)Cluster/
  const above = files.filter(
    (file) => !['cluster', 'embedded', 'host', 'dataplane'].includes(folderOf(file)),
  )
  expect(above.length).toBeGreaterThan(200)
  expect(
    above.filter((file) => BY_NAME.test(readFileSync(join(projectRoot, file), 'utf8'))),
  ).toEqual([])
  const driver = readFileSync(join(projectRoot, 'cluster/driver.ts'), 'utf8')
  expect(/^ {2}\w+\?(?:\(|:)/m.exec(driver)?.[0]).toBeUndefined()
})
