// What the page answers about a packet, on nodes as genuine kube-proxies left them in each mode.

import { describe, expect, test } from 'vitest'
import { pathsOn } from '../../course/node-paths.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { NODE } from '../dataplane/recordings.ts'
import { recordedSnapshot } from './recorded-snapshot.ts'

const MODES = ['iptables', 'ipvs', 'nftables'] as const
const CLUSTER_IP = '10.96.119.228:80'
const FIREWALL = '-A OUTPUT -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable'

function pathsIn(
  mode: string,
  scenario: string,
  from: string,
  to: string,
  edit?: (rules: string) => string,
) {
  const snapshot = recordedSnapshot(mode, scenario, edit)
  return pathsOn(snapshot, NODE, stateOf(snapshot.node(NODE)), parsePacket(from, to))
}

describe.each(MODES)('in %s mode', (mode) => {
  test('a packet to a ClusterIP is delivered, and the other modes are predicted for the same packet', () => {
    const paths = pathsIn(mode, 'web-three-endpoints', 'pod:10.244.1.99', CLUSTER_IP)
    expect(paths.map(({ mode: of, real }) => [of, real])).toEqual([
      [mode, true],
      ...MODES.filter((other) => other !== mode).map((other) => [other, false]),
    ])
    for (const { ends, stop } of paths) {
      expect(stop).toBeUndefined()
      expect(ends.map(({ to, verdict }) => [to, verdict])).toEqual(
        ['10.244.1.6:80', '10.244.1.7:80', '10.244.2.4:80'].map((endpoint) => [endpoint, 'dnat']),
      )
    }
  })

  test('a rule that is not of kube-proxy stops it, on this node alone', () => {
    const insert = (rules: string) => {
      const at = rules.indexOf('COMMIT', rules.indexOf('*filter'))
      const rest = rules.slice(0, at).replace(/^-A OUTPUT /m, `${FIREWALL}\n$&`)
      return `${rest.includes(FIREWALL) ? rest : `${rest}${FIREWALL}\n`}${rules.slice(at)}`
    }
    const [own, ...others] = pathsIn(mode, 'web-three-endpoints', 'host', CLUSTER_IP, insert)
    expect(own?.stop).toMatchObject({ hook: 'OUTPUT', table: 'filter', rule: FIREWALL })
    expect(own?.ends.map(({ verdict }) => verdict)).toEqual(['reject'])
    for (const { stop } of others) expect(stop).toBeUndefined()
  })

  test('a Service without endpoints is the end of the packet, in words', () => {
    for (const { ends, stop, conntrack } of pathsIn(
      mode,
      'web-no-endpoints',
      'pod:10.244.1.99',
      CLUSTER_IP,
    )) {
      expect(ends.every(({ verdict }) => verdict === 'reject' || verdict === 'drop')).toBe(true)
      expect(stop?.sentence).toContain(NODE)
      expect(conntrack).toBeUndefined()
    }
  })

  test('an address that is no Service is left alone', () => {
    const [own] = pathsIn(mode, 'web-three-endpoints', 'pod:10.244.1.99', '203.0.113.7:443')
    expect(own).toMatchObject({ real: true, ends: [{ verdict: 'accept' }] })
    expect(own?.stop).toBeUndefined()
  })
})
