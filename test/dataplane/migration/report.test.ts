import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import {
  clusterConfig,
  defaultConfig,
  type KubeProxyConfig,
} from '../../../dataplane/kube-proxy/config.ts'
import { describeAnswer } from '../../../dataplane/migration/compare-answers.ts'
import {
  changesOnNode,
  comparedNodes,
  type SharedAnswers,
} from '../../../dataplane/migration/compare-nodes.ts'
import { withDropPolicy } from '../../../dataplane/migration/firewall-policy.ts'
import { planMigration } from '../../../dataplane/migration/plan-migration.ts'
import { printMigrationReport } from '../../../dataplane/migration/print-report.ts'
import {
  migrationReportShape,
  publishMigration,
} from '../../../dataplane/migration/report-shape.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { tracePacket } from '../../../dataplane/trace.ts'
import { projectRoot } from '../../../host/layout.ts'
import { type Backend, oneService } from '../kube-proxy/cluster-of.ts'
import { node } from '../made-node.ts'
import { objectsAt } from '../recordings.ts'

type Side = Parameters<typeof planMigration>[1]
const side = (text: string): Side => {
  const [mode = '', version = 'v1.34'] = text.split('@')
  return { mode: mode as Side['mode'], version }
}

const config = (change: Partial<KubeProxyConfig> = {}): KubeProxyConfig => ({
  ...defaultConfig(),
  clusterCIDR: '10.244.0.0/16',
  ...change,
})

const here: Backend = { ip: '10.244.1.5', node: 'w' }
const elsewhere: Backend = { ip: '10.244.2.6' }

function plan(
  from: string,
  to: string,
  {
    spec = {},
    backends = [here, elsewhere],
    status = {},
    change = {},
  }: {
    spec?: object
    backends?: Backend[]
    status?: object
    change?: Partial<KubeProxyConfig>
  } = {},
) {
  const objects = oneService({ type: 'NodePort', ...spec }, backends, status)
  return planMigration(objects, side(from), side(to), { config: config(change) })
}

/** `stops node-port-on-loopback: node 127.0.0.1:30080` of each call. */
const told = ({ changes }: ReturnType<typeof plan>) =>
  changes.flatMap(({ effect, cause, calls }) =>
    calls.map(({ client, to }) => `${effect} ${cause}: ${client} ${to.join(' ')}`),
  )

const nodePort = { ports: [{ port: 80, nodePort: 30080 }] }

describe('what changes for a Service', () => {
  test('a ClusterIP with endpoints answers as before in all modes', () => {
    for (const [from, to] of [
      ['ipvs', 'nftables'],
      ['iptables', 'nftables'],
      ['iptables', 'ipvs'],
      ['ipvs', 'iptables'],
      ['nftables', 'ipvs'],
    ] as const)
      expect(told(plan(from, to)).filter((line) => !line.includes('failure'))).toEqual([])
  })

  test('node ports: none on loopback, and in nftables mode none on other addresses', () => {
    expect(told(plan('iptables', 'nftables', { spec: nodePort }))).toEqual([
      'stops node-port-address: pod 10.244.1.1:30080',
      'stops node-port-address: node 10.244.1.1:30080',
      'stops node-port-address: endpoint 10.244.1.1:30080',
      'stops node-port-on-loopback: node 127.0.0.1:30080',
      'failure unused-port: pod 10.96.0.7:9',
      'failure unused-port: node 10.96.0.7:9',
    ])
    expect(told(plan('nftables', 'iptables', { spec: nodePort })).slice(0, 4)).toEqual(
      told(plan('iptables', 'nftables', { spec: nodePort }))
        .slice(0, 4)
        .map((line) => line.replace('stops', 'starts')),
    )
  })

  test('the addresses of a node that was read are probed, instead of those that are probable', () => {
    const objects = oneService({ type: 'NodePort', ...nodePort }, [here])
    const { links } = node({})
    const storage = { family: 'inet' as const, address: '10.9.0.5', prefixLength: 24 }
    const read = [...links, { name: 'eth1', flags: [], operstate: 'UP', addresses: [storage] }]
    const { changes } = planMigration(objects, side('ipvs'), side('nftables'), {
      config: config(),
      links: new Map([['w', read]]),
    })
    const [stops] = changes.filter(({ effect }) => effect === 'stops')
    expect(stops?.calls.flatMap(({ to }) => to)).toContain('10.9.0.5:30080')
    expect(JSON.stringify(changes)).not.toContain('10.96.0.1:30080')
  })

  test('the fix works: with nodePortAddresses other addresses answer as before', () => {
    const change = { nodePortAddresses: ['10.244.1.1/32', '172.18.0.3/32'] }
    const after = plan('ipvs', 'nftables', { spec: nodePort, change })
    expect(after.breaks).toBe(0)
    expect(plan('ipvs', 'nftables', { spec: nodePort }).breaks).toBe(1)
  })

  test('nftables mode has a masqueradeAll of its own', () => {
    const change = { masqueradeAll: true }
    expect(told(plan('ipvs', 'nftables', { change }))).toContain(
      'source masquerade-all: pod 10.96.0.7:80',
    )
    const fixed = { ...change, nftables: { masqueradeAll: true, masqueradeBit: 14 } }
    expect(told(plan('ipvs', 'nftables', { change: fixed })).join()).not.toContain('source')
  })

  test('internalTrafficPolicy Local on a node without an endpoint, and its fix', () => {
    const spec = { ...nodePort, internalTrafficPolicy: 'Local' }
    const lines = told(plan('ipvs', 'nftables', { spec, backends: [elsewhere] }))
    expect(lines).toContain('stops internal-policy: pod 10.96.0.7:80')
    const fixed = told(
      plan('ipvs', 'nftables', {
        spec: { ...spec, internalTrafficPolicy: 'Cluster' },
        backends: [elsewhere],
      }),
    )
    expect(fixed.join()).not.toContain('internal-policy')
  })

  test('externalTrafficPolicy Local: IPVS applies it to Pods of the node too', () => {
    const spec = { ...nodePort, externalTrafficPolicy: 'Local' }
    expect(told(plan('ipvs', 'nftables', { spec }))).toContain(
      'balancing external-policy: pod 172.18.0.3:30080',
    )
  })

  test('a source range of length 0 stops a load balancer in IPVS mode up to 1.33', () => {
    const input = {
      spec: {
        type: 'LoadBalancer',
        ports: [{ port: 80 }],
        loadBalancerSourceRanges: ['0.0.0.0/0'],
      },
      status: { loadBalancer: { ingress: [{ ip: '172.18.255.200' }] } },
    }
    expect(told(plan('iptables@v1.33', 'ipvs@v1.33', input))).toContain(
      'stops source-ranges: outside 172.18.255.200:80',
    )
    expect(plan('iptables', 'ipvs', input).breaks).toBe(0)
  })

  test('from userspace mode the endpoints see their clients', () => {
    const lines = told(plan('userspace@v1.20', 'iptables@v1.20'))
    expect(lines).toContain('source userspace: pod 10.96.0.7:80')
    expect(lines.join()).not.toContain('stops')
  })

  test('IPv6 addresses are probed as those of IPv4', () => {
    const backends = [{ ip: 'fd00:10:244:2::6' }]
    const change = { clusterCIDR: 'fd00:10:244::/56' }
    const spec = { ...nodePort, internalTrafficPolicy: 'Local' }
    expect(told(plan('ipvs', 'nftables', { spec, backends, change }))).toContain(
      'stops internal-policy: node [fd00:96::1]:80',
    )
  })

  test('the same mode in another version, with what its version changes', () => {
    const spec = { ...nodePort, externalIPs: ['203.0.113.80'], externalTrafficPolicy: 'Local' }
    const lines = told(plan('ipvs@v1.29', 'ipvs@v1.30', { spec }))
    expect(lines.some((line) => line.startsWith('starts version: outside 203.0.113.80'))).toBe(true)
    expect(told(plan('ipvs@v1.34', 'ipvs@v1.34', { spec }))).toEqual([])
  })
})

describe('what matters besides single Services', () => {
  const ids = (report: ReturnType<typeof plan>) =>
    report.circumstances.map(({ id, severity }) => `${severity} ${id}`)

  test('a kernel older than 5.13 stops nftables mode', () => {
    const objects = oneService({}, [here])
    const [first] = objects.nodes
    if (!first) throw new Error('no node')
    const on = (kernelVersion: string) =>
      planMigration(
        { ...objects, nodes: [{ ...first, kernelVersion }] },
        side('ipvs'),
        side('nftables'),
        { config: config() },
      )
    expect(ids(on('5.10.0-28-amd64'))).toContain('breaks kernel')
    expect(on('5.10.0-28-amd64').breaks).toBe(1)
    for (const enough of ['5.13.0', '6.1.0-13-amd64', '10.2.1'])
      expect(ids(on(enough)).join()).not.toContain('kernel')
  })

  test('the rule that drops INVALID packets is missing in the other modes, unless conntrack is liberal', () => {
    for (const to of ['ipvs', 'nftables']) {
      expect(ids(plan('iptables', to))).toContain('check invalid-packets')
      expect(ids(plan('iptables', to, { change: { conntrackTCPLiberal: true } }))).not.toContain(
        'check invalid-packets',
      )
    }
    expect(ids(plan('ipvs', 'nftables'))).not.toContain('check invalid-packets')
  })

  test('a firewall that drops forwarded packets stops what IPVS took in INPUT, and the fix helps', () => {
    const found = plan('ipvs', 'nftables').circumstances.find(({ id }) => id === 'firewall-forward')
    expect(found).toMatchObject({ severity: 'check', concerns: ['default/web'] })
    expect(ids(plan('iptables', 'ipvs'))).toContain('check firewall-input')
    const dnat = ['-A PREROUTING -d 10.96.0.7/32 -j DNAT --to-destination 10.244.2.6:8080']
    const behind = (filter: string[]): NodeState =>
      withDropPolicy(node({ nat: dnat, filter }), 'FORWARD')
    const packet = { from: 'pod', source: '10.244.1.9', destination: '10.96.0.7' } as const
    const fate = (state: NodeState) =>
      tracePacket(state, { ...packet, port: 80, protocol: 'tcp' }).verdict
    expect(fate(behind([]))).toBe('drop')
    expect(fate(behind(['-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT']))).toBe('dnat')
  })

  test('strictARP, session affinity, hashing schedulers, leftovers and other addresses', () => {
    const strict = { ipvs: { scheduler: 'sh', strictARP: true, excludeCIDRs: [] } }
    const spec = { ...nodePort, sessionAffinity: 'ClientIP' }
    expect(ids(plan('ipvs', 'nftables', { spec, change: strict }))).toEqual(
      expect.arrayContaining([
        'note strict-arp',
        'check scheduler',
        'check session-affinity',
        'check other-node-addresses',
        'check kept-connections',
        'check moment-without-rules',
      ]),
    )
    expect(ids(plan('iptables', 'ipvs'))).toEqual(
      expect.arrayContaining(['check leftovers', 'note deprecated', 'note kept-connections']),
    )
    const balanced = {
      spec: { type: 'LoadBalancer' },
      status: { loadBalancer: { ingress: [{ ip: '172.18.255.200' }] } },
    }
    expect(ids(plan('iptables', 'ipvs', balanced))).toContain('check strict-arp')
    expect(ids(plan('iptables', 'nftables')).join()).not.toMatch(/leftovers|strict|scheduler/)
  })

  test('nftables mode before 1.31 is behind a gate, and before 1.30 unknown', () => {
    expect(ids(plan('ipvs@v1.30', 'nftables@v1.30'))).toContain('check feature-gate')
    expect(() => plan('ipvs@v1.29', 'nftables@v1.29')).toThrow('is modelled from kube-proxy 1.30')
  })
})

describe('the report', () => {
  const report = {
    ...planMigration(objectsAt('objects', 'random-20.json'), side('ipvs'), side('nftables'), {
      config: config(),
    }),
    leftOut: [],
  }

  test('has the documented shape', () => {
    const published = publishMigration(report)
    const read = JSON.parse(JSON.stringify(published))
    expect(migrationReportShape.strict().parse(read)).toEqual(published)
    const advised = [...report.changes, ...report.circumstances]
    const mends = [...published.changes, ...published.circumstances].map(({ mend }) => mend)
    expect(mends).toEqual(advised.map(({ advice }) => advice))
  })

  test('every field is documented', () => {
    const document = readFileSync(join(projectRoot, 'docs/migration-report.md'), 'utf8')
    const { properties } = z.toJSONSchema(migrationReportShape) as { properties: object }
    const keysIn = (value: unknown): string[] =>
      typeof value !== 'object' || value === null
        ? []
        : Object.entries(value).flatMap(([key, inner]) => [
            ...(key === 'properties' ? Object.keys(inner) : key === 'enum' ? inner : []),
            ...keysIn(inner),
          ])
    for (const key of [...Object.keys(properties), ...keysIn(properties)])
      expect(document).toContain(`\`${key}\``)
  })

  test('explains every change', () => {
    for (const { cause, field, advice, before, after } of report.changes)
      expect([cause, field, advice, before, after]).not.toContain('')
  })

  test.each([60, 80, 120])('fits into %i columns', (width) => {
    const lines = printMigrationReport(report, width)
    expect(lines.filter((line) => line.length > width)).toEqual([])
    expect(lines.at(-1)).toContain('by which something stops')
  })

  test.each([
    'random-20',
    'web-lb-local',
    'x-both-local-elsewhere',
    'y-dist-same-node',
    'x-hints-mode',
    'y-node-ports-cidrs',
    'y-random-dual-40',
  ])('what is found on one node is reused on others only where it holds: %s', (scenario) => {
    const objects = objectsAt('objects', `${scenario}.json`)
    const input = objects.kubeProxyConfigMap ? clusterConfig(objects) : config()
    for (const from of ['ipvs', 'iptables']) {
      const nodes = comparedNodes(objects, side(from), side('nftables'), { config: input })
      const shared: SharedAnswers = new Map()
      const texts = (known?: SharedAnswers) =>
        nodes.map((one) =>
          changesOnNode(objects, one, known).changes.map(
            ({ probe, effect, before, after }) =>
              `${effect} ${probe.client} ${probe.packet.destination}:${probe.packet.port} ${describeAnswer(before)} ${describeAnswer(after)}`,
          ),
        )
      expect(texts(shared)).toEqual(texts())
      expect(shared.size).toBeGreaterThan(0)
    }
  })

  test('with one node only that node is compared', () => {
    const objects = objectsAt('objects', 'random-20.json')
    const one = planMigration(objects, side('ipvs'), side('nftables'), {
      config: config(),
      nodes: ['k8s-guide-worker'],
    })
    expect(one.nodes).toEqual(['k8s-guide-worker'])
    expect(one.probes).toBeLessThan(report.probes / 2)
  })
})
