import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Refusal } from '../../dataplane/refusal.ts'
import { projectRoot } from '../../host/layout.ts'
import { isOn } from '../../host/switches.ts'
import { files, textOf } from '../architecture/import-graph.ts'

test.each(['1', 'y', 'yes', 'Yes', 'true', 'TRUE', 'on'])('FORCE=%s is on', (FORCE) =>
  expect(isOn('FORCE', { FORCE })).toBe(true),
)

test.each(['', '0', 'n', 'no', 'No', 'false', 'off'])('FORCE="%s" is off', (FORCE) =>
  expect(isOn('FORCE', { FORCE })).toBe(false),
)

test('a variable that is not set is off', () => expect(isOn('FORCE', {})).toBe(false))

test.each(['2', 'maybe', ' 1', 'yes please'])('FORCE="%s" is refused', (FORCE) => {
  expect(() => isOn('FORCE', { FORCE })).toThrow(Refusal)
  expect(() => isOn('FORCE', { FORCE })).toThrow(
    `FORCE="${FORCE}" means neither yes nor no: write FORCE=1 or FORCE=0.`,
  )
})

/** `make measure SHOW=change` names a part of the table, `SHOW=1` the whole. */
const ALSO_A_NAME = new Set(['scripts/measure.ts'])

test('every switch that the Makefile lists is read by isOn, and by nothing else', () => {
  const makefile = readFileSync(join(projectRoot, 'Makefile'), 'utf8')
  const listed = makefile.matchAll(/\b([A-Z]{2,})=1\b/g)
  const switches = new Set([...listed].map(([, name = '']) => name))
  expect([...switches]).toEqual(expect.arrayContaining(['BOOT', 'HARD', 'JSON', 'PLAIN', 'SHOW']))
  const others = [...switches, 'FORCE', 'YES'].filter((name) => name !== 'LAB').join('|')
  const byHand = new RegExp(
    `process\\.env\\.(?:${others})\\b|\\b(?:${others})\\b[^}\\n]*\\} = process\\.env`,
  )
  const found = files.filter((file) => !ALSO_A_NAME.has(file) && byHand.test(textOf(file)))
  expect(found).toEqual([])
})
