import { expect, test } from 'vitest'
import { resources } from '../../apiserver/resource.ts'
import { type FieldType, innermost, loadSchema, type Schema } from '../../apiserver/schema.ts'
import { strategyOf } from '../../apiserver/strategies.ts'

/** The paths that a pattern stands for. */
function pathsOf(pattern: string): string[] {
  return pattern.split('.').reduce(
    (paths, step) => {
      const [names = '', end = ''] = step.split(/(?=\[)/)
      return paths.flatMap((path) =>
        names.split('|').map((name) => `${path}${path && '.'}${name}${end}`),
      )
    },
    [''],
  )
}

function isFieldOf(schema: Schema, className: string, path: string): boolean {
  let type: FieldType | undefined = { is: 'object', name: className }
  for (const step of path.split('.')) {
    const [name = '', items] = step.split('[')
    const field: FieldType | undefined =
      type?.is === 'object' ? schema.get(type.name)?.get(name) : undefined
    type = items === undefined ? field : field?.is === 'array' ? innermost(field) : undefined
  }
  return type !== undefined
}

test('every default and rule is for a field of a kind that has it', async () => {
  const schema = await loadSchema()
  const paths = new Map<string, boolean>()
  for (const { name, schema: className } of resources) {
    const { defaults = {}, rules = {}, fixed = [] } = strategyOf(name)
    const patterns = [...Object.keys(defaults), ...Object.keys(rules), ...fixed].filter(Boolean)
    for (const path of patterns.flatMap(pathsOf))
      paths.set(path, paths.get(path) || isFieldOf(schema, className, path))
  }
  expect(paths.size).toBeGreaterThan(100)
  expect([...paths].filter(([, isField]) => !isField)).toEqual([])
})
