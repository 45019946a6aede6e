// What the page answers about a packet, on nodes as genuine kube-proxies left them in each mode.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { CAPTURE_FILES, readCapturedNode } from '../../dataplane/capture.ts'
import { parsePacket } from '../../dataplane/trace.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { pathsOn } from '../../guide/server/packet-paths.ts'
import { NODE, recordingPath } from '../dataplane/kube-proxy/recordings.ts'

const MODES = ['iptables', 'ipvs', 'nftables'] as const
const CLUSTER_IP = '10.96.119.228:80'
const FIREWALL = '-A OUTPUT -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable'
const FILTER = `*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n`

/** The files of a recorded node; in nftables mode its nf_tables, and iptables without rules. */
function filesAt(mode: string, scenario: string): Map<string, string> {
  const folder = recordingPath('v1.30.3', mode, scenario)
  const textOf = (name: string) => {
    try {
      return readFileSync(`${folder}/${name}`, 'utf8')
    } catch {
      return undefined
    }
  }
  const files = CAPTURE_FILES.flatMap((name): [string, string][] => {
    const text = textOf(name === 'nft-ip.json' ? 'nft.json' : name)
    return text === undefined ? [] : [[name, text]]
  })
  return new Map([['iptables-save', FILTER], ['ip6tables-save', FILTER], ...files, ['proxyMode', mode]])
}

function pathsIn(mode: string, scenario: string, from: string, to: string, edit = (rules: string) => rules) {
  const files = filesAt(mode, scenario)
  files.set('iptables-save', edit(files.get('iptables-save') ?? ''))
  const { items } = JSON.parse(readFileSync(recordingPath('objects', `${scenario}.json`), 'utf8'))
  const image = 'registry.k8s.io/kube-proxy:v1.30.3'
  const kubeProxy = {
    kind: 'Pod',
    metadata: { namespace: 'kube-system', name: 'kube-proxy-1', labels: { 'k8s-app': 'kube-proxy' } },
    spec: { nodeName: NODE, containers: [{ image }] },
  }
  const snapshot = new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items: [...items, kubeProxy] },
    nodes: [{ name: NODE, files }],
  })
  return pathsOn(snapshot, NODE, readCapturedNode(files).state, parsePacket(from, to))
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
    for (const { ends, stop, conntrack } of pathsIn(mode, 'web-no-endpoints', 'pod:10.244.1.99', CLUSTER_IP)) {
      expect(ends.every(({ verdict }) => verdict === 'reject' || verdict === 'drop')).toBe(true)
      expect(stop?.words).toContain(NODE)
      expect(conntrack).toBeUndefined()
    }
  })

  test('an address that is no Service is left alone', () => {
    const [own] = pathsIn(mode, 'web-three-endpoints', 'pod:10.244.1.99', '203.0.113.7:443')
    expect(own).toMatchObject({ real: true, ends: [{ verdict: 'accept' }] })
    expect(own?.stop).toBeUndefined()
  })
})
