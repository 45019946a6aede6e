// `kube-proxy --cleanup` against what CleanupLeftovers of the genuine one does: which chains it
// looks for, what the kernel refuses, what stays.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'
import { setNames } from '../../../dataplane/kube-proxy/ipvs/sets.ts'
import { waitFor } from '../../../host/wait.ts'
import { type NodeName, type Running, ThreeNodes, webIP, worker, worker2 } from './three-nodes.ts'

let nodes: ThreeNodes
const latest: Partial<Record<NodeName, Running>> = {}
beforeAll(async () => {
  nodes = await ThreeNodes.start()
  nodes.addService('port', '10.96.100.110', {
    type: 'NodePort',
    ports: [{ port: 80, protocol: 'TCP', targetPort: 80, nodePort: 30110 }],
  })
  nodes.setEndpoints('port', [worker, worker2])
})
afterAll(async () => {
  await nodes?.stopProxies()
  await nodes?.stop()
})

/** Runs a node's kube-proxy in a mode until nothing that it programs is missing. */
async function run(node: NodeName, mode: 'iptables' | 'ipvs', version?: string): Promise<void> {
  nodes.configure((text) => writeMode(text, { mode }))
  latest[node] = nodes.startProxy(node, version)
  await waitFor(`${mode} mode on ${node}`, 30_000, async () => {
    const differences = nodes.differences(await nodes.state(node), node, mode)
    return differences.every((line) => line.startsWith('stale'))
  })
}

/** `kubectl exec KUBE-PROXY -- kube-proxy …` */
async function kubeProxy(node: NodeName, ...args: string[]) {
  const [program = '', ...before] = latest[node]?.container.programs?.['kube-proxy'] ?? []
  return nodes.machine.run([program, ...before, ...args], { netns: node })
}

const chainsOf = async (node: NodeName, table: string) =>
  (await nodes.sh(node, `iptables-save -t ${table}`))
    .split('\n')
    .flatMap((line) => /^:(KUBE-\S+)/.exec(line)?.[1] ?? [])
/**
 * Without those to the kubelet's chain KUBE-FIREWALL, which kube-proxy writes, too, and does not
 * remove.
 */
const jumpsOf = (node: NodeName) =>
  nodes.sh(
    node,
    "iptables-save | grep -E '^-A (PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) .*KUBE-' | grep -v KUBE-FIREWALL || true",
  )
const setsOf = async (node: NodeName) =>
  (await nodes.sh(node, 'ipset list -name')).split('\n').filter(Boolean).sort()

test('after a change from IPVS to iptables mode it fails once, because IPVS chains jump to KUBE-MARK-MASQ, and the second run removes the rest', async () => {
  await run(worker, 'ipvs')
  await nodes.stopProxies()
  await run(worker, 'iptables')
  await nodes.stopProxies()
  const both = await setsOf(worker)
  expect(both).toEqual(expect.arrayContaining(['KUBE-CLUSTER-IP', 'KUBE-6-CLUSTER-IP']))

  const first = await kubeProxy(worker, '--cleanup')
  expect(first.exitCode).toBe(1)
  expect(first.stderr).toMatch(/Failed to execute iptables-restore/)
  expect(first.stderr).toMatch(
    /"command failed" err="encountered an error while tearing down rules"/,
  )
  expect(await nodes.sh(worker, 'ipvsadm -Sn; ip -o link show kube-ipvs0')).toBe('')
  expect(await jumpsOf(worker)).toBe('')
  expect(await nodes.ask('client1', webIP, 2)).toEqual({ none: 2 })
  const left = await chainsOf(worker, 'nat')
  expect(left).toEqual(expect.arrayContaining(['KUBE-MARK-MASQ', 'KUBE-NODEPORTS']))
  expect(left.some((chain) => chain.startsWith('KUBE-SVC-'))).toBe(true)
  expect(left).not.toContain('KUBE-NODE-PORT')
  const ipv6 = both.filter((name) => name.startsWith('KUBE-6-'))
  expect(ipv6.length).toBe(setNames('ipv6').length)
  expect(await setsOf(worker)).toEqual(ipv6)

  const second = await kubeProxy(worker, '--cleanup')
  expect(`${second.exitCode}${second.stderr}`).toBe('0')
  for (const table of ['nat', 'mangle']) expect(await chainsOf(worker, table)).toEqual([])
  expect(await chainsOf(worker, 'filter')).toEqual(['KUBE-FIREWALL'])
  expect(await setsOf(worker)).toEqual(ipv6)
})

test('the rules of the mode that runs are removed, too, and kube-proxy writes them again when it misses its canary', async () => {
  // Longer than the clean-up takes on a busy machine: rules that are written during it would refuse
  // it.
  nodes.configure((text) => text.replaceAll(/syncPeriod: \S+/g, 'syncPeriod: 25s'))
  await run(worker2, 'iptables')
  const log = latest[worker2]?.log ?? []
  expect(log.join('\n')).not.toContain('iptables canary deleted')
  expect(await kubeProxy(worker2, '--cleanup')).toMatchObject({ exitCode: 0, stderr: '' })
  await waitFor(
    'the rules to be back',
    60_000,
    async () => nodes.differences(await nodes.state(worker2), worker2, 'iptables').length === 0,
  )
  expect(log.join('\n')).toContain('iptables canary deleted')
})

test('of its other options, only --version is known', async () => {
  expect((await kubeProxy(worker2, '--version')).stdout).toBe('Kubernetes v1.34.0\n')
  expect(await kubeProxy(worker2, '--mode=ipvs')).toMatchObject({ exitCode: 1, stdout: '' })
})
