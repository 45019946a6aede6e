import { describe, expect, test } from 'vitest'
import { readCapturedNode } from '../../dataplane/capture.ts'
import { parseConntrack } from '../../dataplane/conntrack.ts'
import { parseIpAddr, printIpAddr } from '../../dataplane/ip-addr.ts'
import { parseIpRoute } from '../../dataplane/ip-route.ts'
import { ParseError } from '../../dataplane/program-output.ts'
import { recordedFiles } from './recordings.ts'

describe('ip -j addr', () => {
  test('reads every recording, and what it prints of it', () => {
    for (const { path, text } of recordedFiles('ip-addr.json')) {
      const links = parseIpAddr(text)
      const [loopback] = links.find(({ name }) => name === 'lo')?.addresses ?? []
      expect(loopback, path).toEqual({ family: 'inet', address: '127.0.0.1', prefixLength: 8 })
      expect(parseIpAddr(printIpAddr(links)), path).toEqual(links)
    }
  })

  test('reads the kind, and skips the empty objects of a filtered list', () => {
    const text = JSON.stringify([
      {},
      {
        ifname: 'veth1@if2',
        flags: ['UP'],
        operstate: 'UP',
        linkinfo: { info_kind: 'veth' },
        addr_info: [{}, { family: 'inet6', local: 'FE80:0::1', prefixlen: 64 }].slice(1),
      },
    ])
    expect(parseIpAddr(text)).toEqual([
      {
        name: 'veth1',
        kind: 'veth',
        flags: ['UP'],
        operstate: 'UP',
        addresses: [{ family: 'inet6', address: 'fe80::1', prefixLength: 64 }],
      },
    ])
  })

  test.each([
    ['', 'not JSON'],
    ['1: lo:', 'not JSON'],
    ['[{"ifname":"lo"}', 'not JSON'],
    ['{}', 'the text'],
    ['[{},{"ifname":7}]', '1.ifname'],
    ['[{"ifname":"a","addr_info":[{"family":"inet","local":"fd00::1"}]}]', 'not an inet address'],
  ])('refuses %s with the place of the fault', (text, message) => {
    expect(() => parseIpAddr(text)).toThrow(ParseError)
    expect(() => parseIpAddr(text)).toThrow(message)
  })
})

describe('conntrack -L', () => {
  test('reads every line of every recording', () => {
    for (const { path, text } of recordedFiles('conntrack'))
      expect(parseConntrack(text), path).toHaveLength(
        text.split('\n').filter((line) => line !== '').length,
      )
  })

  test('reads both directions', () => {
    const line =
      'udp      17 29 src=10.244.1.2 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.0.3 dst=172.18.0.3 sport=53 dport=1234 mark=16384 use=1'
    expect(
      parseConntrack(
        `${line}\nconntrack v1.4.6 (conntrack-tools): 1 flow entries have been shown.\n`,
      ),
    ).toEqual([
      {
        original: {
          source: '10.244.1.2',
          destination: '10.96.0.10',
          sourcePort: 40000,
          destinationPort: 53,
        },
        reply: {
          source: '10.244.0.3',
          destination: '172.18.0.3',
          sourcePort: 53,
          destinationPort: 1234,
        },
      },
    ])
    expect(parseConntrack(`ipv4     2 ${line}`)).toEqual(parseConntrack(line))
  })

  test.each(['tcp 6 98 TIME_WAIT src=1.2.3.4', 'hello', 'tcp tcp src=a dst=b src=b dst=a'])(
    'refuses %s',
    (text) => {
      expect(() => parseConntrack(text)).toThrow(ParseError)
    },
  )
})

describe('ip route', () => {
  test('reads every line of every recording', () => {
    for (const { path, text } of recordedFiles('ip-route')) {
      const routes = parseIpRoute(text)
      expect(routes, path).toHaveLength(
        text.split('\n').filter((line) => line.trim() !== '').length,
      )
      const everywhere = routes.find(({ destination }) => destination === '0.0.0.0/0')
      expect(everywhere?.device, path).toBeDefined()
    }
  })

  test('reads types, metrics and the first of several next hops', () => {
    const text = [
      'default proto static metric 100',
      '\tnexthop via 10.0.0.1 dev eth0 weight 1',
      '\tnexthop via 10.0.0.2 dev eth1 weight 1',
      'blackhole 10.9.0.0/16',
      'local 10.0.0.5 dev eth0 table local proto kernel scope host src 10.0.0.5',
    ].join('\n')
    expect(parseIpRoute(text)).toEqual([
      { type: 'unicast', destination: '0.0.0.0/0', via: '10.0.0.1', device: 'eth0', metric: 100 },
      { type: 'blackhole', destination: '10.9.0.0/16', metric: 0 },
      { type: 'local', destination: '10.0.0.5', device: 'eth0', source: '10.0.0.5', metric: 0 },
    ])
  })

  test('refuses text that is not a route', () => {
    expect(() => parseIpRoute('Command "rout" is unknown')).toThrow(ParseError)
  })
})

describe('readCapturedNode', () => {
  test('reports every fault and reads the other files', () => {
    const { state, faults } = readCapturedNode(
      new Map([
        ['iptables-save', '*nat\nrubbish\n'],
        ['ipset-save', 'add A 1\n'],
        ['ipvsadm-save', '-A -t 10.0.0.1:80 -s rr\n'],
      ]),
    )
    expect(faults.map(({ file, line }) => [file, line])).toEqual([
      ['iptables-save', 2],
      ['ipset-save', 1],
      ['ip-addr.json', undefined],
    ])
    expect(state.virtualServers).toHaveLength(1)
  })
})
