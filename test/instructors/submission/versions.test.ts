import { expect, test } from 'vitest'
import { hasPredictions } from '../../../instructors/submission/manifest.ts'

test.each([
  ['0.1.0', false],
  ['0.2.0', true],
  ['0.10.3', true],
  ['1.0.0', true],
  ['unknown', false],
  ['', false],
])('a submission made by version "%s": predictions count: %s', (project, expected) => {
  expect(hasPredictions({ versions: { project, node: 'v20' } })).toBe(expected)
})
