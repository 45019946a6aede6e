import { expect, test } from 'vitest'
import { parsePacket } from '../../dataplane/trace.ts'
import { causesOf } from '../../dataplane/view/causes.ts'
import { holdingEntries } from '../../dataplane/view/holdings.ts'
import { predictOptions } from '../../grading/evaluate.ts'
import { objectsOf, Snapshot, stateOf } from '../../grading/snapshot.ts'
import { CommandLog } from '../../guide/server/command-log.ts'
import { DataplaneView } from '../../guide/server/dataplane-view.ts'
import { NODE } from '../dataplane/recordings.ts'
import { recordedSnapshot } from './recorded-snapshot.ts'

const WEB = 'web-three-endpoints'
const view = (commands = new CommandLog()) => new DataplaneView(true, commands)
const withRules = (count: number) => (rules: string) =>
  rules.replace(/^COMMIT$/m, `${'-A INPUT -p tcp -m tcp --dport 1 -j DROP\n'.repeat(count)}COMMIT`)

test.each(['iptables', 'ipvs', 'nftables'] as const)(
  'in %s mode every entry comes with its causes, each of which is sent once',
  (mode) => {
    const snapshot = recordedSnapshot(mode, WEB)
    const { nodes, causes, causedBy } = view().see(snapshot).latest
    const [current] = nodes
    if (!current) throw new Error('the node was read')
    const node = snapshot.node(NODE)
    const expected = causesOf(
      stateOf(node),
      objectsOf(snapshot),
      predictOptions(node, mode),
      current,
    )
    const told = [...holdingEntries(current)].map(({ id }, at) => [
      id,
      causedBy[NODE]?.[at]?.map((line) => causes[line]),
    ])
    expect(told).toEqual([...holdingEntries(current)].map(({ id }) => [id, expected.get(id) ?? []]))
    expect(new Set(causes.map((cause) => JSON.stringify(cause))).size).toBe(causes.length)
    expect(JSON.stringify({ causes, causedBy }).length).toBeLessThan(
      JSON.stringify([...expected]).length / 2,
    )
  },
)

test('what can be reached is offered in the form that a trace reads, in IPv6 too; a node without an address is left out', () => {
  const { capture } = recordedSnapshot('iptables', 'web-lb')
  const items = structuredClone(capture.objects.items) as {
    kind: string
    metadata: { name: string }
    status?: object
  }[]
  const withStatus = (name: string, status: object) => {
    for (const item of items)
      if (item.metadata.name === name && item.status) Object.assign(item.status, status)
  }
  withStatus('k8s-guide-worker', { addresses: [{ type: 'InternalIP', address: 'fd00::3' }] })
  withStatus('k8s-guide-worker2', { addresses: [] })
  withStatus('web', {
    loadBalancer: { ingress: [{ ip: 'fd00::200' }, { hostname: 'lb.example' }] },
  })
  const { destinations } = view().see(
    new Snapshot({ ...capture, objects: { ...capture.objects, items } }),
  ).latest
  expect(destinations.filter((to) => !/kube/.test(to))).toEqual([
    'svc/web:80',
    '172.18.0.2:31428',
    '[fd00::3]:31428',
    '[fd00::200]:80',
  ])
  expect(destinations).toContain('svc/kube-system/kube-dns:53/udp')
  for (const to of destinations)
    if (!to.startsWith('svc/')) expect(parsePacket('host', to).port).toBeGreaterThan(0)
})

test('a Pod that gets its address after its link is there is offered at once', () => {
  const shown = view()
  const withPod = (status: object) => {
    const { capture } = recordedSnapshot('iptables', WEB)
    const pod = {
      kind: 'Pod',
      metadata: { namespace: 'default', name: 'client' },
      spec: { nodeName: NODE },
      status,
    }
    const snapshot = new Snapshot({
      ...capture,
      objects: { ...capture.objects, items: [...capture.objects.items, pod] },
    })
    const { isNew, latest } = shown.see(snapshot)
    return [isNew, latest.origins.includes('pod/client')]
  }
  expect(withPod({})).toEqual([true, false])
  expect(withPod({ podIP: '10.244.1.9' })).toEqual([true, true])
  expect(withPod({ podIP: '10.244.1.9' })).toEqual([false, true])
})

test('a moment is known by the command that made it, else by what changed first, and by the steps that passed with it', () => {
  const commands = new CommandLog()
  const shown = view(commands)
  const labels = () => shown.timeline().map(({ label }) => label)
  shown.see(recordedSnapshot('iptables', WEB))
  expect(labels()).toEqual(['the first read'])
  shown.see(recordedSnapshot('iptables', WEB, withRules(1)))
  commands.started('t1', 'iptables -A INPUT …')
  commands.ended('t1')
  shown.see(recordedSnapshot('iptables', WEB, withRules(1)))
  shown.see(recordedSnapshot('iptables', WEB, withRules(3)))
  shown.passed(['web'])
  shown.see(recordedSnapshot('iptables', WEB))
  expect(labels()).toEqual([
    'the first read',
    '-A INPUT -p tcp -m tcp --dport 1 -j DROP added',
    'iptables -A INPUT …: -A INPUT -p tcp -m tcp --dport 1 -j DROP added, and 1 more; passed: web',
    'iptables -A INPUT …: -A INPUT -p tcp -m tcp --dport 1 -j DROP removed, and 2 more',
  ])
})

test('a counter that moved comes with its growth, also after it began again from zero; a new entry has not moved', () => {
  const shown = view()
  const counted = (packets: number) => (rules: string) =>
    rules.replace(/^COMMIT$/m, `[${packets}:100] -A INPUT -p tcp -m tcp --dport 1 -j DROP\nCOMMIT`)
  const growths = (edit?: (rules: string) => string) =>
    Object.values(shown.see(recordedSnapshot('iptables', WEB, edit)).counters ?? {})
  expect(growths()).toEqual([])
  expect(growths(counted(30))).toEqual([])
  expect(growths(counted(33))).toEqual([{ packets: 33, by: 3 }])
  expect(growths(counted(2))).toEqual([{ packets: 2, by: 2 }])
  expect(growths(counted(2))).toEqual([])
})

test('the live connections of a real server are those of the node, and move', () => {
  const shown = view()
  const listed = (active: number, inactive: number) => {
    const line = `  -> 10.244.1.6:80                Masq    1      ${active}          ${inactive}`
    return recordedSnapshot('ipvs', WEB, undefined, {
      'ipvsadm-list': `TCP  10.96.119.228:80 rr\n${line}\n`,
    })
  }
  const server = /^ipvs\/.*10\.244\.1\.6/
  const [current] = shown.see(listed(1, 4)).latest.nodes
  const entry = [...holdingEntries(current ?? { groups: [] })].find(({ id }) => server.test(id))
  expect(entry?.connections).toEqual({ active: 1, inactive: 4 })
  const moved = Object.entries(shown.see(listed(2, 4)).counters ?? {}).find(
    ([key]) => key === `${NODE} ${entry?.id}`,
  )
  expect(moved?.[1]).toEqual({ connections: { active: 2, inactive: 4 }, by: 1 })
})
