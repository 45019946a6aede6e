import { describe, expect, test } from 'vitest'
import { compareNftables } from '../../../dataplane/compare/compare-nftables.ts'
import { compareNodeState } from '../../../dataplane/compare.ts'
import { observedOptions } from '../../../dataplane/kube-proxy/circumstances.ts'
import { parseNftList } from '../../../dataplane/nft-list.ts'
import type { NftTable } from '../../../dataplane/nft-table.ts'
import { predict } from '../../../dataplane/predict.ts'
import {
  configOf,
  folders,
  NODE,
  objectsAt,
  recordedConfig,
  recordedFiles,
  recordedText,
  recordedVersions,
  stateAt,
} from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const modes = recordedVersions.flatMap((version) =>
  (['iptables', 'ipvs'] as const).map((mode) => ({ version, mode })),
)
const nftablesVersions = recordedVersions.filter(
  (version) => folders(version, 'nftables').length > 0,
)

/** A table with plain objects instead of maps, for comparison. */
const plainTable = ({ chains, sets, maps }: NftTable) => ({
  chains: Object.fromEntries(chains),
  sets: Object.fromEntries(sets),
  maps: Object.fromEntries(
    [...maps].map(([name, { type, elements }]) => [
      name,
      { type, elements: Object.fromEntries(elements) },
    ]),
  ),
})

describe('a prediction equals the recording of a genuine kube-proxy', () => {
  test.each(modes)('$version $mode', ({ version, mode }) => {
    for (const scenario of folders(version, mode)) {
      const folder = `${version}/${mode}/${scenario}`
      const recorded = stateAt(folder)
      const objects = objectsAt('objects', `${scenario}.json`)
      const has = (file: string) => recordedText(`${folder}/${file}`) !== undefined
      // Where ipvsadm-ln is missing, the kernel had no dummy links, and kube-ipvs0 is a bridge
      // (README of the recordings).
      const options = { dummyAddressesOnly: mode === 'ipvs' && !has('ipvsadm-ln') }
      const config = configOf(objects)
      const predicted = predict(objects, { node: NODE, mode, version, config })
      expect(strictDifference(recorded, predicted, options), scenario).toEqual([])
      expect(compareNodeState(predicted, recorded, { mode, untouched: true }), scenario).toEqual([])
      // The Pod range of the cluster can also be told from the nodes'.
      const inferred = predict(objects, { node: NODE, mode, version })
      expect(strictDifference(recorded, inferred, options), scenario).toEqual([])
      if (has('ip6tables-save')) {
        const inSix = predict(objects, { node: NODE, mode, version, config, family: 'ipv6' })
        expect(strictDifference(stateAt(folder, 'ipv6'), inSix, options), scenario).toEqual([])
      }
    }
  })

  test.each(nftablesVersions)('%s nftables', (version) => {
    for (const scenario of folders(version, 'nftables')) {
      const folder = `${version}/nftables/${scenario}`
      const objects = objectsAt('objects', `${scenario}.json`)
      const predicted =
        predict(objects, { node: NODE, mode: 'nftables', version, config: configOf(objects) })
          .nftables ?? []
      const recorded = stateAt(folder).nftables ?? []
      expect(predicted.map(plainTable), folder).toEqual(recorded.map(plainTable))
      expect(compareNftables(predicted, recorded, { mode: 'nftables' }), folder).toEqual([])
      const json = recordedText(`${folder}/nft.json`)
      if (json === undefined) continue
      const listed = parseNftList(json)
      const both = predicted.filter(({ family }) => listed.some((table) => table.family === family))
      expect(compareNftables(both, listed, { mode: 'nftables' }), folder).toEqual([])
    }
  })

  test('1.34.2 serves node ports on addresses of kube-ipvs0 only after another sync, and either state is correct', () => {
    const objects = objectsAt('objects', 'y-node-ports-cidrs.json')
    const known = {
      node: NODE,
      mode: 'ipvs',
      version: 'v1.34.2',
      config: configOf(objects),
    } as const
    const states = ['v1.34.2', 'v1.33.5'].map((version) =>
      stateAt(`${version}/ipvs/y-node-ports-cidrs`),
    )
    expect(states.map(({ virtualServers }) => virtualServers.length)).toEqual([13, 17])
    for (const state of states) {
      const predicted = predict(objects, observedOptions(objects, state, known))
      expect(compareNodeState(predicted, state, { mode: 'ipvs', untouched: true })).toEqual([])
    }
  })

  test('nothing of the recordings of 14 versions is left out', () => {
    const scenarios = (mode: string, version: string) => folders(version, mode).length
    const counts = ['iptables', 'ipvs', 'nftables'].map((mode) =>
      recordedVersions.reduce((sum, version) => sum + scenarios(mode, version), 0),
    )
    expect(recordedVersions).toHaveLength(14)
    expect(counts).toEqual([341, 341, 158])
    expect(recordedFiles('nft.json')).toHaveLength(98)
    expect(
      recordedFiles('ip6tables-save').filter(({ path }) => path.startsWith('v1.')),
    ).toHaveLength(614)
  })

  test('strictDifference finds a missing rule, member, real server and address, and another order', () => {
    const state = () =>
      predict(objectsAt('objects', 'web-lb-local.json'), {
        node: NODE,
        mode: 'ipvs',
        version: '1.30',
      })
    const changes: ((changed: ReturnType<typeof state>) => unknown)[] = [
      (changed) => changed.iptables.get('nat')?.get('KUBE-POSTROUTING')?.rules.pop(),
      (changed) => changed.iptables.get('nat')?.get('KUBE-SERVICES')?.rules.reverse(),
      (changed) => changed.iptables.get('filter')?.get('INPUT')?.rules.reverse(),
      (changed) => changed.iptables.get('filter')?.delete('KUBE-FORWARD'),
      (changed) => changed.ipsets.get('KUBE-CLUSTER-IP')?.members.delete('10.96.0.1,tcp:443'),
      (changed) => changed.ipsets.delete('KUBE-6-CLUSTER-IP'),
      (changed) => changed.virtualServers[0]?.realServers.pop(),
      (changed) => changed.virtualServers.pop(),
      (changed) => changed.links[0]?.addresses.pop(),
    ]
    for (const change of changes) {
      const changed = state()
      change(changed)
      expect(strictDifference(state(), changed)).not.toEqual([])
    }
    expect(strictDifference(state(), state())).toEqual([])
  })
})

/**
 * Stages in which the genuine kube-proxy ran in iptables mode on nodes without another mode before.
 */
const IPTABLES = [
  'baseline',
  'web-clusterip',
  'nodeport-loadbalancer',
  'ipvs-asked-but-kernel-lacks-it',
  'ipvs-kernel-1-iptables',
]
/**
 * Stages after a switch: there are stale chains, and everything that ipvs mode writes must be as
 * predicted.
 */
const IPVS = ['ipvs-kernel-2-switched-not-flushed', 'ipvs-kernel-3-flushed-and-used']

const cases = (stages: string[]) =>
  stages.flatMap((stage) =>
    folders('kind-v1.20.2', stage, 'nodes').map((node) => ({ stage, node })),
  )

/** The kubelet's own chains, and those of other agents. */
const notKubeProxy = (table: string, chain: string) =>
  chain === 'KUBE-KUBELET-CANARY' ||
  chain.startsWith('KIND-') ||
  chain.startsWith('DOCKER_') ||
  (table === 'nat' && chain === 'KUBE-MARK-DROP') ||
  (table === 'filter' && chain === 'KUBE-FIREWALL')

function predicted(
  stage: string,
  node: string,
  mode: 'iptables' | 'ipvs',
  family: 'ipv4' | 'ipv6',
) {
  const state = stateAt(`kind-v1.20.2/${stage}/nodes/${node}`)
  const nodeAddresses = state.links
    .filter((link) => link.name !== 'kube-ipvs0')
    .flatMap((link) => link.addresses.map(({ address }) => address))
  return predict(objectsAt('kind-v1.20.2', stage, 'objects.json'), {
    node,
    mode,
    family,
    version: 'v1.20.2',
    // kind switches the gate on from 1.20 on, and kubeadm writes the Pod range.
    config: { ...recordedConfig(), dualStack: true },
    nodeAddresses,
  })
}

describe('the nodes of a genuine kind cluster', () => {
  test.each(cases(IPTABLES))('$stage $node', ({ stage, node }) => {
    const folder = `kind-v1.20.2/${stage}/nodes/${node}`
    for (const family of ['ipv4', 'ipv6'] as const) {
      const recorded = stateAt(folder, family)
      // One node was read during its first sync, before kube-proxy had restored the IPv6 rules.
      const settled = recorded.iptables.get('filter')?.get('KUBE-FORWARD')?.rules.length !== 0
      expect(settled || family === 'ipv6').toBe(true)
      if (!settled) continue
      const options = {
        ignore: notKubeProxy,
        jumpsInAnyOrder: true,
        tables: ['nat', 'filter', 'mangle'],
      }
      expect(
        strictDifference(recorded, predicted(stage, node, 'iptables', family), options),
      ).toEqual([])
    }
  })

  test.each(cases(IPVS))('$stage $node', ({ stage, node }) => {
    const recorded = stateAt(`kind-v1.20.2/${stage}/nodes/${node}`)
    const wanted = predicted(stage, node, 'ipvs', 'ipv4')
    const ignore = (table: string, chain: string) =>
      notKubeProxy(table, chain) ||
      (chain.startsWith('KUBE-') && !wanted.iptables.get(table)?.has(chain))
    expect(
      strictDifference(recorded, wanted, {
        ignore,
        jumpsInAnyOrder: true,
        tables: ['nat', 'filter'],
      }),
    ).toEqual([])
  })
})

function predictAt(step: string, mode: 'iptables' | 'ipvs') {
  const [version = ''] = step.split('/')
  return predict(objectsAt('transitions', step, 'objects.json'), {
    node: NODE,
    mode,
    version,
    config: recordedConfig(),
  })
}

describe('a node that is switched between modes in place', () => {
  test.each(['v1.20.2', 'v1.30.3'])(
    '%s starts with the predicted state, apart from the chain of another agent',
    (version) => {
      const ignore = (_table: string, chain: string) => chain === 'KIND-MASQ-AGENT'
      const step = `${version}/1-iptables`
      expect(
        strictDifference(stateAt(`transitions/${step}`), predictAt(step, 'iptables'), { ignore }),
      ).toEqual([])
    },
  )

  // The other recorded switches were read before the first sync was complete.
  test.each([
    ['v1.20.2/2-iptables-then-ipvs', 'ipvs'],
    ['v1.20.2/3-ipvs-then-iptables', 'iptables'],
    ['v1.30.3/3-ipvs-then-iptables', 'iptables'],
  ] as const)('%s: has everything that is predicted, and only leftovers besides', (step, mode) => {
    const findings = compareNodeState(predictAt(step, mode), stateAt(`transitions/${step}`), {
      mode,
    })
    expect(new Set(findings.map(({ kind }) => kind))).toEqual(new Set(['stale']))
  })
})
