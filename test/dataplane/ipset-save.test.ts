import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseIpsetSave, printIpsetSave } from '../../dataplane/ipset-save.ts'
import { ParseError } from '../../dataplane/program-output.ts'
import { recordedFiles } from './recordings.ts'

describe('ipset save', () => {
  test('prints every recording unchanged', () => {
    for (const { path, text } of recordedFiles('ipset-save'))
      expect(printIpsetSave(parseIpsetSave(text)), path).toBe(text)
  })

  test('reads type, options and members', () => {
    const sets = parseIpsetSave(
      'create A hash:ip,port family inet hashsize 1024 maxelem 65536 counters timeout 0\nadd A 10.0.0.1,tcp:80 packets 3 bytes 4\n',
    )
    expect(sets.get('A')).toEqual({
      name: 'A',
      type: 'hash:ip,port',
      options: { family: 'inet', hashsize: '1024', maxelem: '65536', counters: '', timeout: '0' },
      members: new Set(['10.0.0.1,tcp:80']),
    })
  })

  test.each([
    ['10.0.0.0/8 nomatch', '10.0.0.0/8 nomatch'],
    ['30080 timeout 300 comment "a b"', '30080'],
    ['10.0.0.0/24,eth0', '10.0.0.0/24,eth0'],
    ['10.96.0.10,6:53', '10.96.0.10,tcp:53'],
    ['fd00::1,17:53,17:2::3 timeout 30', 'fd00::1,udp:53,17:2::3'],
    ['fd00::1,17:2::3', 'fd00::1,17:2::3'],
  ])('reads the member %s as %s', (text, member) =>
    expect(parseIpsetSave(`create A hash:net\nadd A ${text}\n`).get('A')?.members).toEqual(
      new Set([member]),
    ),
  )

  test.each([
    ['a member before its set', 'add A 1\n'],
    ['a set twice', 'create A bitmap:port range 0-1\ncreate A bitmap:port range 0-1\n'],
    ['a set without type', 'create A\n'],
    ['an option without value', 'create A hash:ip family\n'],
    ['a line without a member', 'create A hash:ip\nadd A\n'],
    ['unknown extensions', 'create A hash:ip\nadd A 10.0.0.1 sparkle\n'],
    ['an error message', 'ipset v7.17: Kernel error received: Operation not permitted\n'],
  ])('refuses %s', (_, text) => {
    expect(() => parseIpsetSave(text)).toThrow(ParseError)
  })

  test('reads all members that it prints', () => {
    const member = fc.tuple(fc.ipV4(), fc.constantFrom('tcp', 'udp', 'sctp'), fc.nat(65535))
    fc.assert(
      fc.property(fc.array(member), (members) => {
        const texts = new Set(
          members.map(([address, protocol, port]) => `${address},${protocol}:${port}`),
        )
        const sets = new Map([
          ['A', { name: 'A', type: 'hash:ip,port', options: { family: 'inet' }, members: texts }],
        ])
        expect(parseIpsetSave(printIpsetSave(sets))).toEqual(sets)
      }),
    )
  })
})
