import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { readCapturedNode } from '../../dataplane/capture.ts'
import type { Family } from '../../dataplane/ip-address.ts'
import {
  clusterConfig,
  defaultConfig,
  type KubeProxyConfig,
} from '../../dataplane/kube-proxy/config.ts'
import type { NftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { readNftText } from './nft-text.ts'
import { unpackedRecording } from './recorded-archive.ts'

/** The recordings of genuine kube-proxies. */
const RECORDINGS = join(import.meta.dirname, '../../data/recordings')

const plain = readdirSync(RECORDINGS, { recursive: true, encoding: 'utf8' })

/**
 * The files of the versions that are recorded in one archive each, by path:
 * `v1.36.2/ipvs/web-lb/ipset-save`.
 */
const archived = new Map(
  plain
    .filter((path) => /^v1\..*\.json\.br$/.test(path))
    .map((path) => basename(path, '.json.br'))
    .flatMap((name) =>
      [...unpackedRecording(name)].map(
        ([path, text]) => [`${name}/${path}`, text] as [string, string],
      ),
    ),
)
const paths = [...plain, ...archived.keys()]

/** The text of a recorded file; undefined if it does not exist. */
export function recordedText(path: string): string | undefined {
  const file = join(RECORDINGS, path)
  return archived.get(path) ?? (existsSync(file) ? readFileSync(file, 'utf8') : undefined)
}

/** Every file of the recordings with this name, by its path below the recordings. */
export const recordedFiles = (name: string): { path: string; text: string }[] =>
  paths
    .filter((path) => basename(path) === name)
    .map((path) => ({ path, text: recordedText(path) ?? '' }))

/** The folders of all recorded nodes, such as `v1.30.3/ipvs/web-lb`. */
export const recordedFolders: readonly string[] = paths
  .filter((path) => basename(path) === 'ip-addr.json')
  .map(dirname)

export const NODE = 'k8s-guide-worker'

export const recordingPath = (...parts: string[]): string => join(RECORDINGS, ...parts)

const children = new Map<string, Set<string>>()
for (const path of paths)
  for (
    let folder = dirname(path), name = basename(path);
    name !== '.';
    name = basename(folder), folder = dirname(folder)
  )
    children.set(folder, (children.get(folder) ?? new Set()).add(name))

/** The names of the folders in a folder of the recordings. */
export const folders = (...parts: string[]): string[] => {
  const folder = join(...parts, '.')
  return [...(children.get(folder) ?? [])].filter((name) => children.has(join(folder, name))).sort()
}

/** The recorded versions: `v1.20.2`, … */
export const recordedVersions: readonly string[] = folders().filter((name) =>
  /^v1\.\d+\.\d+$/.test(name),
)

/** What the kube-proxies of the recordings were configured with. */
export const recordedConfig = (): KubeProxyConfig => ({
  ...defaultConfig(),
  clusterCIDR: '10.244.0.0/16',
})

/**
 * The configuration of the recorded kube-proxy: that of the objects' ConfigMap, if it differs from
 * the usual one.
 */
export const configOf = (objects: ClusterObjects): KubeProxyConfig =>
  objects.kubeProxyConfigMap ? clusterConfig(objects) : recordedConfig()

export const objectsAt = (...parts: string[]): ClusterObjects =>
  readObjects(JSON.parse(readFileSync(recordingPath(...parts), 'utf8'))).objects

/** The names of the recorded objects. */
export const recordedScenarios = (): string[] =>
  readdirSync(recordingPath('objects')).map((file) => basename(file, '.json'))

/** The IPv4 tables that kube-proxy of this version writes in nftables mode for recorded objects. */
export function predictedTables(scenario: string, version: string): NftTable[] {
  const options = { node: NODE, mode: 'nftables', version, config: recordedConfig() } as const
  const { nftables = [] } = predict(objectsAt('objects', `${scenario}.json`), options)
  return nftables.filter(({ family }) => family === 'ip')
}

/**
 * The node recorded in a folder below the recordings, such as `v1.30.3/ipvs/web-lb`, with its rules
 * of one family.
 */
export function stateAt(folder: string, family: Family = 'ipv4'): NodeState {
  // Of nodes in nftables mode only what nft and ip printed is recorded.
  const files = new Map([['iptables-save', '']])
  for (const file of children.get(folder) ?? [])
    files.set(file === 'nft.json' ? 'nft-ip.json' : file, recordedText(`${folder}/${file}`) ?? '')
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length > 0)
    throw new Error(`${folder}: ${faults.map((fault) => fault.message).join('; ')}`)
  const listed = ['nft.txt', 'nft6.txt'].flatMap((file) => files.get(file) ?? [])
  return listed.length > 0 ? { ...state, nftables: listed.map(readNftText) } : state
}
