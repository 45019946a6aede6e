import { expect, test } from 'vitest'
import { parseIpAddr } from '../../dataplane/ip-addr.ts'
import { ParseError } from '../../dataplane/parse-error.ts'

const link = (index: number, name: string, address: string) => ({
  ifindex: index,
  ifname: name,
  flags: ['UP'],
  operstate: 'UP',
  addr_info: [{ family: 'inet', local: address, prefixlen: 24 }],
})
const LO = link(1, 'lo', '127.0.0.1')
const print = (...links: object[]) => `${JSON.stringify(links)}\n`

test('a link that two nodes have in common is read for each of them', () => {
  const one = parseIpAddr(print(LO, link(2, 'eth0', '172.18.0.2')))
  const other = parseIpAddr(print(LO, link(2, 'eth0', '172.18.0.3')))
  expect(one.map(({ addresses }) => addresses[0]?.address)).toEqual(['127.0.0.1', '172.18.0.2'])
  expect(other.map(({ addresses }) => addresses[0]?.address)).toEqual(['127.0.0.1', '172.18.0.3'])
  one[0]?.addresses.pop()
  expect(other[0]?.addresses).toHaveLength(1)
})

test('text that is cut at the wrong places is read as the JSON that it is', () => {
  const nested = { ...LO, linkinfo: { info_kind: 'bridge', members: [{ ifindex: 4 }, { ifindex: 5 }] } }
  expect(parseIpAddr(print(nested, {}, link(2, 'eth0', '172.18.0.2'))).map(({ name }) => name)).toEqual(['lo', 'eth0'])
  const quoted = { ...LO, ifname: 'a,{"ifindex":9,' }
  expect(parseIpAddr(print(quoted, LO)).map(({ name }) => name)).toEqual(['a,{"ifindex":9,', 'lo'])
})

test.each([
  ['a fault in the second link', print(LO, { ...LO, flags: 'UP' }), '1.flags'],
  ['a list without an end', print(LO, LO).slice(0, -3), 'not JSON'],
  ['one link too many', `[${JSON.stringify(LO)},{"ifindex":]`, 'not JSON'],
])('%s is reported with its place in the whole', (_what, text, told) => {
  expect(() => parseIpAddr(text)).toThrow(ParseError)
  expect(() => parseIpAddr(text)).toThrow(told)
})
