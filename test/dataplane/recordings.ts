import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { CAPTURE_FILES, type CapturedNode, readCapturedNode } from '../../dataplane/capture.ts'
import type { Family } from '../../dataplane/ip-address.ts'
import { defaultConfig, type KubeProxyConfig } from '../../dataplane/kube-proxy/config.ts'
import type { NftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'

/** The recordings of genuine kube-proxies. */
const RECORDINGS = join(import.meta.dirname, '../../data/recordings')

/** Every file of the recordings with this name, by its path below the recordings. */
export function recordedFiles(name: string): { path: string; text: string }[] {
  return readdirSync(RECORDINGS, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name === name)
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: relative(RECORDINGS, path), text: readFileSync(path, 'utf8') }))
}

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

/** One recorded node, with its rules of one family. */
export function stateAt(folder: string, family: Family = 'ipv4'): NodeState {
  const present = CAPTURE_FILES.filter((file) => existsSync(join(folder, file)))
  const files = new Map(present.map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
  const { state, faults } = readCapturedNode(files, { family })
  if (faults.length > 0) throw new Error(`${folder}: ${faults.map((fault) => fault.message).join('; ')}`)
  return state
}

/** Reads the node recorded in a folder below the recordings, as `v1.30.3/ipvs/web-lb`. */
export function recordedNode(folder: string): CapturedNode {
  const files = readdirSync(recordingPath(folder))
  return readCapturedNode(new Map(files.map((name) => [name, readFileSync(recordingPath(folder, name), 'utf8')])))
}
