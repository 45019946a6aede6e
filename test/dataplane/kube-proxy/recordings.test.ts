import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { compareNftables } from '../../../dataplane/compare/compare-nftables.ts'
import { compareNodeState } from '../../../dataplane/compare.ts'
import { parseNftList } from '../../../dataplane/nft-list.ts'
import type { NftTable } from '../../../dataplane/nft-table.ts'
import { predict } from '../../../dataplane/predict.ts'
import { folders, NODE, objectsAt, recordedConfig, recordingPath, stateAt } from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const versions = folders().filter((name) => /^v1\.\d+\.\d+$/.test(name))
const modes = versions.flatMap((version) => (['iptables', 'ipvs'] as const).map((mode) => ({ version, mode })))

const chainTexts = ({ chains }: NftTable) =>
  Object.fromEntries(
    [...chains].map(([name, { rules }]) => [
      name,
      rules.map(({ text, comment }) => (comment === undefined ? text : `${text} comment "${comment}"`)),
    ]),
  )

/** The rules of each chain in the text of `nft list table`. */
function listedChains(text: string): Record<string, string[]> {
  const chains: Record<string, string[]> = {}
  for (const [, name = '', body = ''] of text.matchAll(/^\tchain (\S+) \{\n(.*?)^\t\}$/gms))
    chains[name] = body
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '' && !/^(type|comment) /.test(line))
  return chains
}

describe('a prediction equals the recording of a genuine kube-proxy', () => {
  test.each(modes)('$version $mode', ({ version, mode }) => {
    for (const scenario of folders(version, mode)) {
      const folder = `${version}/${mode}/${scenario}`
      const recorded = stateAt(folder)
      const objects = objectsAt('objects', `${scenario}.json`)
      const has = (file: string) => existsSync(recordingPath(folder, file))
      // Where ipvsadm-ln is missing, the kernel had no dummy links, and kube-ipvs0 is a bridge (README of the recordings).
      const options = { dummyAddressesOnly: mode === 'ipvs' && !has('ipvsadm-ln') }
      const predicted = predict(objects, { node: NODE, mode, version, config: recordedConfig() })
      expect(strictDifference(recorded, predicted, options), scenario).toEqual([])
      // The Pod range of the cluster can also be told from the nodes'.
      const inferred = predict(objects, { node: NODE, mode, version })
      expect(strictDifference(recorded, inferred, options), scenario).toEqual([])
      if (has('ip6tables-save')) {
        const inSix = predict(objects, { node: NODE, mode, version, config: recordedConfig(), family: 'ipv6' })
        expect(strictDifference(stateAt(folder, 'ipv6'), inSix, options), scenario).toEqual([])
      }
    }
  })

  test('strictDifference finds a missing rule, member, real server and address, and another order', () => {
    const state = () =>
      predict(objectsAt('objects', 'web-lb-local.json'), { node: NODE, mode: 'ipvs', version: '1.30' })
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

  test.each(folders('v1.30.3', 'nftables'))('v1.30.3 nftables %s', (scenario) => {
    const folder = recordingPath('v1.30.3', 'nftables', scenario)
    const text = (file: string) => readFileSync(join(folder, file), 'utf8')
    const options = { node: NODE, mode: 'nftables', version: 'v1.30.3', config: recordedConfig() } as const
    const predicted = predict(objectsAt('objects', `${scenario}.json`), options).nftables ?? []
    const held = parseNftList(text('nft.json'))
    expect(compareNftables(predicted.slice(0, 1), held, { mode: 'nftables' })).toEqual([])
    const words = ({ chains, sets, maps }: NftTable) => ({
      chains: Object.fromEntries(chains),
      // The JSON of nft 1.0.6 leaves out the flag dynamic, which its text has.
      sets: Object.fromEntries([...sets].map(([name, { flags, ...set }]) => [name, set])),
      maps: Object.fromEntries(
        [...maps].map(([name, { type, elements }]) => [name, { type, elements: Object.fromEntries(elements) }]),
      ),
    })
    expect(words(predicted[0] as NftTable)).toEqual(words(held[0] as NftTable))
    expect(chainTexts(predicted[1] as NftTable)).toEqual(listedChains(text('nft6.txt')))
    expect([...(predicted[1]?.sets.keys() ?? [])].sort()).toEqual(['cluster-ips', 'nodeport-ips'])
  })

  test('there are recordings of nine versions in both modes', () => {
    expect(versions.length).toBeGreaterThanOrEqual(9)
    expect(modes.flatMap(({ version, mode }) => folders(version, mode)).length).toBeGreaterThanOrEqual(422)
  })
})

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
      const options = { ignore: notKubeProxy, jumpsInAnyOrder: true, tables: ['nat', 'filter', 'mangle'] }
      expect(strictDifference(recorded, predicted(stage, node, 'iptables', family), options)).toEqual([])
    }
  })

  test.each(cases(IPVS))('$stage $node', ({ stage, node }) => {
    const recorded = stateAt(`kind-v1.20.2/${stage}/nodes/${node}`)
    const wanted = predicted(stage, node, 'ipvs', 'ipv4')
    const ignore = (table: string, chain: string) =>
      notKubeProxy(table, chain) || (chain.startsWith('KUBE-') && !wanted.iptables.get(table)?.has(chain))
    expect(strictDifference(recorded, wanted, { ignore, jumpsInAnyOrder: true, tables: ['nat', 'filter'] })).toEqual([])
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
      expect(strictDifference(stateAt(`transitions/${step}`), predictAt(step, 'iptables'), { ignore })).toEqual([])
    },
  )

  // The other recorded switches were read before the first sync was complete.
  test.each([
    ['v1.20.2/2-iptables-then-ipvs', 'ipvs'],
    ['v1.20.2/3-ipvs-then-iptables', 'iptables'],
    ['v1.30.3/3-ipvs-then-iptables', 'iptables'],
  ] as const)('%s: has everything that is predicted, and only leftovers besides', (step, mode) => {
    const findings = compareNodeState(predictAt(step, mode), stateAt(`transitions/${step}`), { mode })
    expect(new Set(findings.map(({ kind }) => kind))).toEqual(new Set(['stale']))
  })
})
