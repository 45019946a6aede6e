import { expect, test } from 'vitest'
import { clusterName, nodePlans } from '../../host/layout.ts'

test('the nodes of a cluster with the longest name have names that a label may have', () => {
  const longest = 'a'.repeat(49)
  for (const { name } of nodePlans(clusterName(longest))) expect(name.length).toBeLessThanOrEqual(63)
  expect(() => clusterName(`${longest}a`)).toThrow(/can't be the name of a cluster: .* at most 49/)
})
