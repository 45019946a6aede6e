import type { V1ContainerState, V1Pod } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { blockedBy, probeOf } from '../../course/blocked-probe.ts'
import { readCapturedNode } from '../../dataplane/capture.ts'
import type { Family } from '../../dataplane/ip-address.ts'

const ADDRESSES = { ipv4: ['10.9.0.3', '10.244.1.2'], ipv6: ['fd00:9::3', 'fd00:244::2'] } as const

const RUNNING: V1ContainerState = { running: {} }
const PULLING: V1ContainerState = { waiting: { reason: 'ErrImagePull' } }

function podWith(family: Family = 'ipv4', state = RUNNING): V1Pod {
  const readinessProbe = { httpGet: { port: 'http' } }
  return {
    metadata: { name: 'web' },
    spec: {
      nodeName: 'worker',
      containers: [{ name: 'nginx', readinessProbe, ports: [{ name: 'http', containerPort: 80 }] }],
    },
    status: {
      podIP: ADDRESSES[family][1],
      containerStatuses: [
        { name: 'nginx', image: '', imageID: '', ready: false, restartCount: 0, state },
      ],
    },
  }
}

/** What a learner is told about a Pod on a node with these rules in its table filter. */
function toldWith(rules: string, pod = podWith(), family: Family = 'ipv4'): string | undefined {
  const [local] = ADDRESSES[family]
  const inet = {
    family: family === 'ipv4' ? 'inet' : 'inet6',
    local,
    prefixlen: 16,
    scope: 'global',
  }
  const links = [
    { ifindex: 2, ifname: 'eth0', flags: ['UP'], mtu: 1500, operstate: 'UP', addr_info: [inet] },
  ]
  const output = rules.startsWith(':OUTPUT') ? '' : ':OUTPUT ACCEPT [0:0]\n'
  const table = `*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n${output}${rules}\nCOMMIT\n`
  const files = {
    'iptables-save': table,
    'ip6tables-save': table,
    'ip-addr.json': JSON.stringify(links),
  }
  const { state, faults } = readCapturedNode(new Map(Object.entries(files)), { family })
  expect(faults).toEqual([])
  const probe = probeOf(pod)
  return probe && blockedBy(state, pod, probe)
}

const DROP = '-A OUTPUT -p tcp -m tcp --dport 80 -j DROP'

test('the first rule that stops a probe is named, in any chain, with the command that deletes it', () => {
  const own = ':MINE - [0:0]\n-A OUTPUT -j MINE\n-A MINE -p tcp -m tcp --dport 80 -j DROP'
  expect(toldWith(`${own}\n${DROP.replace('DROP', 'REJECT')}`)).toBe(
    "Pod web can't become ready: on worker, a rule of filter MINE drops the kubelet's probe of 10.244.1.2:80: -A MINE -p tcp -m tcp --dport 80 -j DROP. Delete the rule: make exec NODE=worker CMD='iptables -t filter -D MINE -p tcp -m tcp --dport 80 -j DROP'",
  )
  expect(toldWith(DROP, podWith('ipv6'), 'ipv6')).toMatch(
    /probe of \[fd00:244::2\]:80: .*CMD='ip6tables -t filter -D OUTPUT /,
  )
})

test('a rule is deleted by its command also if its comment has characters of a shell, as iptables-save escapes them', () => {
  const comment = String.raw`"it\'s \"$5\""`
  expect(toldWith(DROP.replace(' -j', ` -m comment --comment ${comment} -j`))).toContain(
    String.raw`--comment "it'\''s \"\$$5\"" -j DROP'`,
  )
})

test('a path is shown where no command deletes the rule', () => {
  expect(toldWith(':OUTPUT DROP [0:0]')).toMatch(
    /the policy of filter OUTPUT drops .*\. See its path: make trace FROM=host TO=10\.244\.1\.2:80 NODE=worker$/,
  )
})

test.each([
  ['a rule for another port', DROP.replace('80', '81'), podWith()],
  [
    'a rule that stops a part of the probes',
    DROP.replace(' -j', ' -m statistic --mode random --probability 0.5 -j'),
    podWith(),
  ],
  ['an image that is not there', DROP, podWith('ipv4', PULLING)],
  ['no probe', DROP, { ...podWith(), spec: { containers: [{ name: 'nginx' }] } }],
])('nothing is accused: %s', (_what, rules, pod) => {
  expect(toldWith(rules, pod)).toBeUndefined()
})
