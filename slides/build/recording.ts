import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { recordedNode } from '../../course/read-node.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type ClusterObjects, readObjects, type Service } from '../../dataplane/objects.ts'
import { projectRoot } from '../../host/layout.ts'

/** The state that a genuine kube-proxy programmed on a node, and its objects. */
export interface Recording {
  node: string
  state: NodeState
  objects: ClusterObjects
}

const RECORDINGS = join(projectRoot, 'data/recordings')
const NODE = 'k8s-guide-worker'

/**
 * Reads one node of a recording: `v1.30.3/ipvs/web-clusterip` or `kind-v1.20.2/web-clusterip`.
 * Throws Error that names it.
 */
export function readRecording(name: string, node: string = NODE): Recording {
  const folder = join(RECORDINGS, name)
  if (name.includes('..') || !existsSync(folder))
    throw new Error(`there is no recording "${name}" in data/recordings`)
  const state = recordedNode(folder, node, undefined)
  const own = join(folder, 'objects.json')
  const objects = existsSync(own) ? own : join(RECORDINGS, 'objects', `${basename(name)}.json`)
  return { node, state, objects: readObjects(JSON.parse(readFileSync(objects, 'utf8'))).objects }
}

/** The Service `namespace/name` of a recording. Throws Error with the existing ones. */
export function recordedService(recording: Recording, name: string): Service {
  const services = new Map(
    recording.objects.services.map((one) => [`${one.namespace}/${one.name}`, one]),
  )
  const found = services.get(name)
  if (found) return found
  throw new Error(
    `there is no Service "${name}" in the recording, only ${[...services.keys()].join(', ')}`,
  )
}

/** One entry of flows.json: where real connections ended with a genuine kube-proxy. */
interface RecordedFlow {
  mode: string
  version: string
  scenario: string
  from: string
  to: string
  counts?: Record<string, number>
}

/**
 * How many of a recording's real connections each backend answered. Throws Error if none was
 * recorded.
 */
export function countsOfFlow(name: string, from: string, to: string): Record<string, number> {
  const flows = JSON.parse(readFileSync(join(RECORDINGS, 'flows.json'), 'utf8')) as RecordedFlow[]
  const found = flows.find(
    (flow) =>
      `${flow.version}/${flow.mode}/${flow.scenario}` === name &&
      flow.from === from &&
      flow.to === to,
  )
  if (!found?.counts)
    throw new Error(`flows.json has no connections of "${name}" from ${from} to ${to}`)
  return found.counts
}
