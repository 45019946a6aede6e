import { expect, test } from 'vitest'
import { addressIn, contains, parseRange, quietAddress } from '../../dataplane/ip-address.ts'

test.each([
  ['10.244.1.0/24', '10.244.1.250'],
  ['10.244.0.0/16', '10.244.0.250'],
  // A node with few Pods: .250 would be another node's.
  ['10.244.1.0/25', '10.244.1.122'],
  ['10.244.1.128/26', '10.244.1.186'],
  ['10.244.1.7/32', '10.244.1.7'],
  ['fd00:10:244:1::/64', 'fd00:10:244:1::fa'],
  ['fd00:10:96::1:0/112', 'fd00:10:96::1:fa'],
])('an address of %s that is probably unused is %s', (range, address) => {
  expect(quietAddress(range)).toBe(address)
  expect(contains(range, address)).toBe(true)
})

test('text that is no range has no such address', () => {
  for (const text of ['', 'web', '10.0.0.0/33', '::/129'])
    expect(quietAddress(text)).toBeUndefined()
})

test('an address is counted from either end of a range, and stays within', () => {
  const at = (range: string, offset: number) => addressIn(parseRange(range) as never, offset)
  expect(at('203.0.113.255/24', 1)).toBe('203.0.113.1')
  expect(at('203.0.113.8/31', 1)).toBe('203.0.113.9')
  expect(at('203.0.113.8/32', 1)).toBe('203.0.113.8')
  expect(at('2001:db8::/127', -5)).toBe('2001:db8::')
})
