import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { readCapturedNode } from '../../dataplane/capture.ts'
import type { Family } from '../../dataplane/ip-address.ts'
import { defaultConfig, type KubeProxyConfig } from '../../dataplane/kube-proxy/config.ts'
import type { NftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'

/** The recordings of genuine kube-proxies. */
const RECORDINGS = join(import.meta.dirname, '../../data/recordings')

const paths = readdirSync(RECORDINGS, { recursive: true, encoding: 'utf8' })

/** Every file of the recordings with this name, by its path below the recordings. */
export const recordedFiles = (name: string): { path: string; text: string }[] =>
  paths
    .filter((path) => basename(path) === name)
    .map((path) => ({ path, text: readFileSync(join(RECORDINGS, path), 'utf8') }))

/** The folders of all recorded nodes, such as `v1.30.3/ipvs/web-lb`. */
export const recordedFolders: readonly string[] = paths.filter((path) => basename(path) === 'ip-addr.json').map(dirname)

export const NODE = 'k8s-guide-worker'

export const recordingPath = (...parts: string[]): string => join(RECORDINGS, ...parts)

export const folders = (...parts: string[]): string[] =>
  readdirSync(recordingPath(...parts), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()

/** What the kube-proxies of the recordings were configured with. */
export const recordedConfig = (): KubeProxyConfig => ({ ...defaultConfig(), clusterCIDR: '10.244.0.0/16' })

export const objectsAt = (...parts: string[]): ClusterObjects =>
  readObjects(JSON.parse(readFileSync(recordingPath(...parts), 'utf8'))).objects

/** The IPv4 tables that kube-proxy of this version writes in nftables mode for recorded objects. */
export function predictedTables(scenario: string, version: string): NftTable[] {
  const options = { node: NODE, mode: 'nftables', version, config: recordedConfig() } as const
  const { nftables = [] } = predict(objectsAt('objects', `${scenario}.json`), options)
  return nftables.filter(({ family }) => family === 'ip')
}

/** The node recorded in a folder below the recordings, such as `v1.30.3/ipvs/web-lb`, with its rules of one family. */
export function stateAt(folder: string, family: Family = 'ipv4'): NodeState {
  // Of nodes in nftables mode only what nft and ip printed is recorded.
  const files = new Map([['iptables-save', '']])
  for (const file of readdirSync(recordingPath(folder)))
    files.set(file === 'nft.json' ? 'nft-ip.json' : file, readFileSync(recordingPath(folder, file), 'utf8'))
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length > 0) throw new Error(`${folder}: ${faults.map((fault) => fault.message).join('; ')}`)
  return state
}
