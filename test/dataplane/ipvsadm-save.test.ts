import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  parseIpvsadmSave,
  printIpvsadmSave,
  type VirtualServer,
} from '../../dataplane/ipvsadm-save.ts'
import { ParseError } from '../../dataplane/program-output.ts'
import { recordedFiles } from './recordings.ts'

const address = fc.oneof(
  fc.ipV4(),
  fc.integer({ min: 1, max: 0xffff }).map((last) => `fd00::${last.toString(16)}`),
)
const port = fc.integer({ min: 0, max: 65535 })
const realServer = fc.record({
  address,
  port,
  forward: fc.constantFrom('masq' as const, 'route' as const, 'tunnel' as const),
  weight: fc.nat(65535),
})
const rest = {
  scheduler: fc.constantFrom('rr', 'wlc', 'sh', 'mh'),
  flags: fc.subarray(['mh-port', 'mh-fallback', 'pe=sip', 'ops']),
  realServers: fc.array(realServer, { maxLength: 4 }),
}
const optional = {
  persistent: fc.integer({ min: 1, max: 86400 }),
  netmask: fc.constantFrom('255.255.255.0', '64'),
}
const byAddress = fc.record(
  {
    protocol: fc.constantFrom('TCP' as const, 'UDP' as const, 'SCTP' as const),
    address,
    port,
    ...rest,
    ...optional,
  },
  { requiredKeys: ['protocol', 'address', 'port', 'scheduler', 'flags', 'realServers'] },
)
const byMark = fc.record({
  protocol: fc.constant('FWM' as const),
  address: fc.nat(0xffff).map(String),
  port: fc.constant(0),
  ...rest,
})

describe('ipvsadm -Sn', () => {
  test('prints every recording unchanged', () => {
    for (const { path, text } of recordedFiles('ipvsadm-save'))
      expect(printIpvsadmSave(parseIpvsadmSave(text)), path).toBe(text)
  })

  test('reads every virtual server that it prints', () => {
    fc.assert(
      fc.property(fc.oneof(byAddress, byMark), (server: VirtualServer) => {
        expect(parseIpvsadmSave(printIpvsadmSave([server]))).toEqual([server])
      }),
    )
  })

  test('reads IPv6 addresses, firewall marks and flags', () => {
    const text = [
      '-A -f 5 -6 -s rr -p 300 ops',
      '-A -t [fd00::1]:80 -s mh -p 600 -b mh-fallback,mh-port',
      '-a -t [fd00::1]:80 -r [fd00::2]:8080 -i -w 0 --tun-type gue --tun-port 5555 --tun-nocsum',
    ].join('\n')
    expect(parseIpvsadmSave(text)).toEqual([
      {
        protocol: 'FWM',
        address: '5',
        port: 0,
        scheduler: 'rr',
        persistent: 300,
        flags: ['inet6', 'ops'],
        realServers: [],
      },
      {
        protocol: 'TCP',
        address: 'fd00::1',
        port: 80,
        scheduler: 'mh',
        persistent: 600,
        flags: ['mh-fallback', 'mh-port'],
        realServers: [{ address: 'fd00::2', port: 8080, forward: 'tunnel', weight: 0 }],
      },
    ])
  })

  test.each([
    ['names instead of numbers', '-A -t web:http -s rr'],
    ['a port out of range', '-A -t 10.0.0.1:65536 -s rr'],
    ['no scheduler', '-A -t 10.0.0.1:80'],
    ['a real server without its virtual server', '-a -t 10.0.0.1:80 -r 10.0.0.2:80 -m -w 1'],
    ['a virtual server twice', '-A -t 10.0.0.1:80 -s rr\n-A -t 10.0.0.1:80 -s rr'],
    ['a negative weight', '-A -t 10.0.0.1:80 -s rr\n-a -t 10.0.0.1:80 -r 10.0.0.2:80 -m -w -1'],
    ['an unbracketed IPv6 address', '-A -t fd00::1:80 -s rr'],
    ['the table of ipvsadm -Ln', 'TCP  10.0.0.1:80 rr'],
    ['a word that every object has', '-A constructor x -s rr'],
  ])('refuses %s', (_, text) => {
    expect(() => parseIpvsadmSave(text)).toThrow(ParseError)
  })
})
