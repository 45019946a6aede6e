import { describe, expect, test } from 'vitest'
import { predict } from '../../../dataplane/predict.ts'
import { folders, objectsAt, recordedConfig, recordingPath, stateAt } from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const VERSION = 'v1.20.2'
/** Stages in which the genuine kube-proxy ran in iptables mode on nodes without another mode before. */
const IPTABLES = [
  'baseline',
  'web-clusterip',
  'nodeport-loadbalancer',
  'ipvs-asked-but-kernel-lacks-it',
  'ipvs-kernel-1-iptables',
]
/** Stages after a switch: there are stale chains, and everything that ipvs mode writes must be as predicted. */
const IPVS = ['ipvs-kernel-2-switched-not-flushed', 'ipvs-kernel-3-flushed-and-used']

const cases = (stages: string[]) =>
  stages.flatMap((stage) => folders('kind-v1.20.2', stage, 'nodes').map((node) => ({ stage, node })))

/** The kubelet's own chains, and those of other agents. */
const notKubeProxy = (table: string, chain: string) =>
  chain === 'KUBE-KUBELET-CANARY' ||
  chain.startsWith('KIND-') ||
  chain.startsWith('DOCKER_') ||
  (table === 'nat' && chain === 'KUBE-MARK-DROP') ||
  (table === 'filter' && chain === 'KUBE-FIREWALL')

function predicted(stage: string, node: string, mode: 'iptables' | 'ipvs', family: 'ipv4' | 'ipv6') {
  const state = stateAt(recordingPath('kind-v1.20.2', stage, 'nodes', node))
  const nodeAddresses = state.links
    .filter((link) => link.name !== 'kube-ipvs0')
    .flatMap((link) => link.addresses.map(({ address }) => address))
  return predict(objectsAt('kind-v1.20.2', stage, 'objects.json'), {
    node,
    mode,
    family,
    version: VERSION,
    // kind switches the gate on from 1.20 on, and kubeadm writes the Pod range.
    config: { ...recordedConfig(), dualStack: true },
    nodeAddresses,
  })
}

describe('the nodes of a genuine kind cluster', () => {
  test.each(cases(IPTABLES))('$stage $node', ({ stage, node }) => {
    const folder = recordingPath('kind-v1.20.2', stage, 'nodes', node)
    for (const family of ['ipv4', 'ipv6'] as const) {
      const recorded = stateAt(folder, family)
      // One node was read during its first sync, before kube-proxy had restored the IPv6 rules.
      const settled = recorded.iptables.get('filter')?.get('KUBE-FORWARD')?.rules.length !== 0
      expect(settled || family === 'ipv6').toBe(true)
      if (!settled) continue
      const options = { ignore: notKubeProxy, jumpsInAnyOrder: true, tables: ['nat', 'filter', 'mangle'] }
      expect(strictDifference(recorded, predicted(stage, node, 'iptables', family), options)).toEqual([])
    }
  })

  test.each(cases(IPVS))('$stage $node', ({ stage, node }) => {
    const recorded = stateAt(recordingPath('kind-v1.20.2', stage, 'nodes', node))
    const wanted = predicted(stage, node, 'ipvs', 'ipv4')
    const ignore = (table: string, chain: string) =>
      notKubeProxy(table, chain) || (chain.startsWith('KUBE-') && !wanted.iptables.get(table)?.has(chain))
    expect(strictDifference(recorded, wanted, { ignore, jumpsInAnyOrder: true, tables: ['nat', 'filter'] })).toEqual([])
  })
})
