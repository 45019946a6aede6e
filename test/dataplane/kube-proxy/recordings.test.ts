import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { compareNftables } from '../../../dataplane/compare/compare-nftables.ts'
import { parseNftList } from '../../../dataplane/nft-list.ts'
import type { NftTable } from '../../../dataplane/nft-table.ts'
import { predict } from '../../../dataplane/predict.ts'
import { folders, NODE, objectsAt, recordedConfig, recordingPath, stateAt } from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const versions = folders().filter((name) => /^v1\.\d+\.\d+$/.test(name))
const recordings = versions.flatMap((version) =>
  (['iptables', 'ipvs'] as const).flatMap((mode) =>
    folders(version, mode).map((scenario) => ({ version, mode, scenario })),
  ),
)
let equal = 0

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
  test.each(recordings)('$version $mode $scenario', ({ version, mode, scenario }) => {
    const folder = recordingPath(version, mode, scenario)
    const recorded = stateAt(folder)
    const objects = objectsAt('objects', `${scenario}.json`)
    // Where ipvsadm-ln is missing, the kernel had no dummy links, and kube-ipvs0 is a bridge (README of the recordings).
    const options = { dummyAddressesOnly: mode === 'ipvs' && !existsSync(join(folder, 'ipvsadm-ln')) }
    const predicted = predict(objects, { node: NODE, mode, version, config: recordedConfig() })
    expect(strictDifference(recorded, predicted, options)).toEqual([])
    // The Pod range of the cluster can also be told from the nodes'.
    expect(strictDifference(recorded, predict(objects, { node: NODE, mode, version }), options)).toEqual([])
    if (existsSync(join(folder, 'ip6tables-save'))) {
      const inSix = predict(objects, { node: NODE, mode, version, config: recordedConfig(), family: 'ipv6' })
      expect(strictDifference(stateAt(folder, 'ipv6'), inSix, options)).toEqual([])
    }
    equal++
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
    expect(recordings.length).toBeGreaterThanOrEqual(422)
  })

  afterAll(() => console.log(`recordings equal: ${equal} of ${recordings.length}`))
})
