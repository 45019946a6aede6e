import { expect, test } from 'vitest'
import { clusterName, nodePlans, requireNewName } from '../../host/layout.ts'

const longest = 'a'.repeat(49)

test('the nodes of a cluster with the longest name have names that a label may have', () => {
  requireNewName(clusterName(longest))
  for (const { name } of nodePlans(longest)) expect(name.length).toBeLessThanOrEqual(63)
  expect(() => requireNewName(`${longest}a`)).toThrow(
    /can't be the name of a cluster: .* at most 49/,
  )
})

test.each(['a-.b', 'a.-b'])(
  'a new cluster is not named "%s": its nodes would have no valid host names',
  (name) => {
    expect(() => requireNewName(name)).toThrow(/can't be the name of a cluster/)
    requireNewName('a.b-c')
  },
)

test('a cluster that has a longer name, of an earlier version, can still be named', () => {
  expect(clusterName(`${longest}a`)).toBe(`${longest}a`)
  expect(() => clusterName(`${longest}aa`)).toThrow(/can't be the name of a cluster: .* at most 49/)
})
