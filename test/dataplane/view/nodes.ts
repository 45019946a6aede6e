import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseNftList } from '../../../dataplane/nft-list.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../../../dataplane/objects.ts'
import type { PredictOptions } from '../../../dataplane/predict.ts'
import { configOf, folders, NODE, recordedVersions, recordingPath, stateAt } from '../recordings.ts'

export interface RecordedNode {
  /** `v1.30.3/ipvs/web-lb` */
  path: string
  state: NodeState
  options: PredictOptions
  objects: ClusterObjects
  /** The objects as they were given to kube-proxy. */
  items: ApiObject[]
}

interface ApiObject {
  kind: string
  metadata: { namespace?: string; name: string }
}

const itemsAt = (...parts: string[]): ApiObject[] =>
  JSON.parse(readFileSync(recordingPath(...parts), 'utf8')).items

/**
 * Objects in unusual spellings, or without a selector: what these tests quote is not found in them
 * as text.
 */
const UNUSUAL = ['y-lb-ranges-odd', 'y-node-ports-cidrs', 'y-random-dual-40', 'y-node-port-tcp-udp']

/**
 * The nodes that the recordings hold for a version, a mode and objects; of the archived versions
 * the newest, because the others add little but time. Each is read when it is needed.
 */
export const recordedNodes: readonly { path: string; read: () => RecordedNode }[] = recordedVersions
  .filter((version) => !/^v1\.3[2345]\./.test(version))
  .flatMap((version) => folders(version).map((mode) => ({ version, mode })))
  .flatMap(({ version, mode }) =>
    folders(version, mode)
      .filter((name) => !UNUSUAL.includes(name))
      .map((scenario) => {
        const path = `${version}/${mode}/${scenario}`
        return {
          path,
          read: () => readNode(path, version, mode as PredictOptions['mode'], scenario),
        }
      }),
  )

/** The same by mode. */
export const byMode = ['iptables', 'ipvs', 'nftables'].map((mode) => {
  return { mode, nodes: recordedNodes.filter(({ path }) => path.includes(`/${mode}/`)) }
})

/** The same for the oldest, a middle and the newest recorded version, for tests that take long. */
export const threeVersions = recordedNodes.filter(({ path }) => /^v1\.(20|24|30)/.test(path))

function readNode(
  path: string,
  version: string,
  mode: PredictOptions['mode'],
  scenario: string,
): RecordedNode {
  const items = itemsAt('objects', `${scenario}.json`)
  const { objects } = readObjects({ kind: 'List', items })
  const options = { node: NODE, mode, version, config: configOf(objects) }
  return { path, state: stateAt(path), options, objects, items }
}

/**
 * Whole nodes, other programs' rules among them: of genuine kind clusters, and after switches of
 * the mode.
 */
export const wholeNodes: readonly { path: string; state: NodeState; objects?: ClusterObjects }[] = [
  ...folders('kind-v1.20.2').flatMap((stage) =>
    folders('kind-v1.20.2', stage, 'nodes').map((node) => {
      const path = `kind-v1.20.2/${stage}/nodes/${node}`
      const { objects } = readObjects({
        kind: 'List',
        items: itemsAt('kind-v1.20.2', stage, 'objects.json'),
      })
      return { path, state: stateAt(path), objects }
    }),
  ),
  ...folders('transitions').flatMap((version) =>
    folders('transitions', version).map((stage) => {
      const path = `transitions/${version}/${stage}`
      return { path, state: stateAt(path) }
    }),
  ),
]

/** What a kernel listed of tables that were predicted for nftables mode. */
export const listedTables = readdirSync(recordingPath('../nft'))
  .filter((name) => name.endsWith('.json'))
  .map((name) => ({
    path: `nft/${basename(name)}`,
    tables: parseNftList(readFileSync(recordingPath('../nft', name), 'utf8')),
  }))
