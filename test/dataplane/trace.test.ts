import { describe, expect, test } from 'vitest'
import { explainTrace } from '../../dataplane/trace/draw.ts'
import { CircleError, PacketError, parsePacket, traceToJson } from '../../dataplane/trace.ts'
import { external, node, pod, trace } from './made-node.ts'

describe('tracePacket', () => {
  test('accepts a packet without translation if no rule matches', () => {
    const { verdict, outcomes, hops } = trace(node({}), pod, '8.8.8.8:53/udp')
    expect({ verdict, outcomes, hops }).toEqual({
      verdict: 'accept',
      outcomes: [{ to: '8.8.8.8:53', probability: 1, masquerade: false }],
      hops: [],
    })
  })

  test('follows jumps, returns and gotos as the kernel does', () => {
    const filter = [
      ':A - [0:0]',
      ':B - [0:0]',
      ':C - [0:0]',
      '-A FORWARD -j A',
      '-A FORWARD -j REJECT',
      '-A A -g B',
      '-A A -j DROP',
      '-A B -j C',
      '-A B -j RETURN',
      '-A C -p udp -j DROP',
    ]
    const { verdict, hops } = trace(node({ filter }), pod, '8.8.8.8:53')
    expect(verdict).toBe('reject')
    expect(hops.map(({ chain, verdict }) => `${chain} ${verdict}`)).toEqual([
      'FORWARD JUMP',
      'A GOTO',
      'B JUMP',
      'B RETURN',
      'FORWARD REJECT',
    ])
    expect(trace(node({ filter }), pod, '8.8.8.8:53/udp').verdict).toBe('drop')
  })

  test('reports a policy that drops the packet, and no later rule', () => {
    const { verdict, lost } = trace(node({ filter: [':FORWARD DROP [0:0]'] }), pod, '8.8.8.8:53')
    expect(verdict).toBe('drop')
    expect(lost).toEqual([
      {
        verdict: 'drop',
        probability: 1,
        hook: 'FORWARD',
        table: 'filter',
        chain: 'FORWARD',
        rule: '-P FORWARD DROP',
        reason: 'the end of the chain: its policy',
      },
    ])
  })

  test('follows random rules with probabilities that add up to 1, including connections that are stopped', () => {
    const nat = [
      '-A PREROUTING -m statistic --mode random --probability 0.25000000000 -j DNAT --to-destination 10.244.1.5:8080',
      '-A PREROUTING -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.2.5:8080',
    ]
    const filter = ['-A FORWARD -d 10.244.2.5/32 -j DROP']
    const result = trace(node({ nat, filter }), pod, '10.96.0.9:80')
    expect(result.verdict).toBe('dnat')
    expect(result.outcomes).toEqual([
      { to: '10.244.1.5:8080', probability: 0.25, masquerade: false },
      { to: '10.96.0.9:80', probability: 0.375, masquerade: false },
    ])
    expect(result.lost).toMatchObject([{ verdict: 'drop', probability: 0.375, chain: 'FORWARD' }])
    expect(traceToJson(result)).toHaveProperty('lost')
  })

  test('applies nat once to the source and once to the destination of a connection', () => {
    const nat = [
      '-A PREROUTING -d 172.18.0.3/32 -j DNAT --to-destination 127.0.0.1:9',
      '-A OUTPUT -j DNAT --to-destination 172.18.0.3:8',
      '-A INPUT -j SNAT --to-source 10.0.0.1',
      '-A POSTROUTING -j ACCEPT',
    ]
    const local = trace(node({ nat }), 'host', '10.96.0.9:80')
    expect(local.outcomes).toEqual([{ to: '172.18.0.3:8', probability: 1, masquerade: false }])
    expect(local.hops.map(({ hook }) => hook)).toEqual(['OUTPUT', 'POSTROUTING'])
    const remote = trace(node({ nat }), external, '172.18.0.3:80')
    expect(remote.outcomes).toEqual([{ to: '127.0.0.1:9', probability: 1, masquerade: true }])
  })

  test('passes the hooks in the order of the kernel, for each origin and destination', () => {
    const log = (table: string) =>
      ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'].map(
        (hook) => `-A ${hook} -j LOG --log-prefix ${table}`,
      )
    const tables = {
      nat: log('nat'),
      filter: log('filter'),
      mangle: log('mangle'),
      raw: log('raw'),
    }
    const way = (from: string, to: string, ipvs = '') => {
      return trace(node(tables, ipvs), from, to).hops.map(({ hook, table }) => `${hook} ${table}`)
    }
    const entered = ['PREROUTING raw', 'PREROUTING mangle', 'PREROUTING nat']
    const left = ['POSTROUTING mangle', 'POSTROUTING nat']
    expect(way(pod, '8.8.8.8:53')).toEqual([
      ...entered,
      'FORWARD mangle',
      'FORWARD filter',
      ...left,
    ])
    expect(way(pod, '172.18.0.3:53')).toEqual([
      ...entered,
      'INPUT mangle',
      'INPUT filter',
      'INPUT nat',
    ])
    expect(way('host', '8.8.8.8:53')).toEqual([
      'OUTPUT raw',
      'OUTPUT mangle',
      'OUTPUT nat',
      'OUTPUT filter',
      ...left,
    ])
    const server = '-A -t 10.96.0.1:53 -s rr\n-a -t 10.96.0.1:53 -r 10.244.2.5:53 -m -w 1\n'
    const again = ['OUTPUT raw', 'OUTPUT mangle', 'OUTPUT filter', ...left]
    expect(way(pod, '10.96.0.1:53', server)).toEqual([
      ...entered,
      'INPUT mangle',
      'INPUT filter',
      'INPUT ipvs',
      ...again,
    ])
    expect(way('host', '10.96.0.1:53', server)).toEqual([
      'OUTPUT raw',
      'OUTPUT mangle',
      'OUTPUT nat',
      'OUTPUT ipvs',
      ...again,
    ])
    const here = server.replace('10.244.2.5', '172.18.0.3')
    expect(way(pod, '10.96.0.1:53', here)).toEqual([
      ...entered,
      'INPUT mangle',
      'INPUT filter',
      'INPUT ipvs',
      'INPUT nat',
    ])
  })

  test.each([
    ['rr', { '10.244.1.5:80': 0.5, '10.244.2.5:80': 0.5 }],
    ['wrr', { '10.244.1.5:80': 0.25, '10.244.2.5:80': 0.75 }],
    ['fo', { '10.244.2.5:80': 1 }],
  ])(
    'distributes connections as scheduler %s does, without real servers of weight 0',
    (scheduler, shares) => {
      const ipvs = [
        `-A -t 10.96.0.1:80 -s ${scheduler} -p 600`,
        '-a -t 10.96.0.1:80 -r 10.244.1.5:80 -m -w 1',
        '-a -t 10.96.0.1:80 -r 10.244.2.5:80 -m -w 3',
        '-a -t 10.96.0.1:80 -r 10.244.2.6:80 -m -w 0',
      ].join('\n')
      const { outcomes, verdict } = trace(node({}, ipvs), pod, '10.96.0.1:80')
      expect(verdict).toBe('dnat')
      expect(Object.fromEntries(outcomes.map(({ to, probability }) => [to, probability]))).toEqual(
        shares,
      )
    },
  )

  test.each(['', '-a -t 10.96.0.1:80 -r 10.244.1.5:80 -m -w 0'])(
    'rejects a packet to a virtual server without usable real servers (%s)',
    (real) => {
      const { verdict, outcomes, lost } = trace(
        node({}, `-A -t 10.96.0.1:80 -s rr\n${real}`),
        pod,
        '10.96.0.1:80',
      )
      expect({ verdict, outcomes }).toEqual({ verdict: 'reject', outcomes: [] })
      expect(lost[0]?.table).toBe('ipvs')
    },
  )

  test('prefers a virtual server for the firewall mark to one for the address', () => {
    const ipvs = '-A -f 5 -s rr\n-a -f 5 -r 10.244.1.5:0 -m -w 1\n-A -t 10.96.0.1:80 -s rr'
    const state = node(
      { mangle: ['-A PREROUTING -p tcp -m tcp --dport 80 -j MARK --set-xmark 0x5/0xff'] },
      ipvs,
    )
    expect(trace(state, pod, '10.96.0.1:80').outcomes).toMatchObject([{ to: '10.244.1.5:80' }])
  })

  test('does not translate a packet that table raw excludes from tracking', () => {
    const state = node({
      raw: ['-A PREROUTING -j CT --notrack'],
      nat: ['-A PREROUTING -j DNAT --to-destination 10.244.1.5:1'],
    })
    expect(trace(state, pod, '8.8.8.8:80').verdict).toBe('accept')
  })

  test('refuses chains that jump to each other in a cycle, and packets that the node cannot have', () => {
    const circle = node({
      filter: [':A - [0:0]', ':B - [0:0]', '-A FORWARD -j A', '-A A -j B', '-A B -j A'],
    })
    expect(() => trace(circle, pod, '8.8.8.8:80')).toThrow(CircleError)
    for (const [from, to] of [
      ['pod', '10.0.0.1:80'],
      ['pod:10.0.0.1/8', '10.0.0.1:80'],
      ['host', '10.0.0.1'],
      ['host', '10.0.0.1:0'],
      ['host', '10.0.0.1:80/icmp'],
      ['host', '10.0.0.1:80/tcp/udp'],
      ['pod:10.0.0.1', '[fd00::1]:80'],
    ] as const) {
      expect(() => parsePacket(from, to)).toThrow(PacketError)
    }
    expect(parsePacket('external:FD00::2', '[fd00:0::1]:80/udp')).toEqual({
      from: 'external',
      source: 'fd00::2',
      destination: 'fd00::1',
      port: 80,
      protocol: 'udp',
    })
  })

  test('explains every evaluated rule and the result', () => {
    const filter = [
      '-A FORWARD -p udp -j ACCEPT',
      '-A FORWARD -d 8.8.8.8/32 -j REJECT --reject-with icmp-port-unreachable',
    ]
    const text = explainTrace(trace(node({ filter }), pod, '8.8.8.8:80')).join('\n')
    expect(text).toContain('· -A FORWARD -p udp -j ACCEPT\n        no match: protocol is tcp')
    expect(text).toContain('✓ -A FORWARD -d 8.8.8.8/32 -j REJECT')
    expect(text).toContain('connection refused')
  })
})
