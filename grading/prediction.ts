import type { KubeProxyConfig, KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { VersionError } from '../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { PredictError, predict } from '../dataplane/predict.ts'
import { Trouble } from './failure.ts'
import type { NodeView, Snapshot } from './snapshot.ts'

const IPVS_LINK = 'kube-ipvs0'

/** What a prediction was made from, and what came of it, which nobody changes. */
interface Made {
  from: readonly (readonly object[])[]
  config: KubeProxyConfig
  circumstances: string
  state: NodeState
}

/** By the first of the Services: captures of one cluster share the very objects that did not change between them. */
const made = new WeakMap<object, Made[]>()
/** More than a cluster has nodes and modes, times the last few states of its objects. */
const REMEMBERED = 32

const sameObjects = (one: readonly (readonly object[])[], other: readonly (readonly object[])[]) =>
  one.every((list, at) => {
    const others = other[at] ?? []
    return list.length === others.length && list.every((object, index) => object === others[index])
  })

/**
 * What kube-proxy should have programmed on one node of a snapshot: from the objects, the configuration and the version in
 * force, and the node's own addresses. Throws Trouble for a version or node that can't be predicted.
 */
export function predictOn(snapshot: Snapshot, node: NodeView, mode: KubeProxyMode): NodeState {
  const version = node.kubeProxyVersion
  const { config, objects } = snapshot
  const nodeAddresses = addressesOf(node)
  const circumstances = [node.name, mode, version, ...nodeAddresses].join('\0')
  const from = [objects.services, objects.endpointSlices, objects.nodes]
  const [first] = objects.services
  const known = (first && made.get(first)) ?? []
  const before = known.find(
    (one) => one.circumstances === circumstances && one.config === config && sameObjects(one.from, from),
  )
  if (before) return before.state
  try {
    const state = predict(objects, { node: node.name, mode, version, config, nodeAddresses })
    if (first) made.set(first, [{ from, config, circumstances, state }, ...known].slice(0, REMEMBERED))
    return state
  } catch (error) {
    if (error instanceof VersionError || error instanceof PredictError) throw new Trouble(error.message)
    throw error
  }
}

/** Every address that is the node's own; those on kube-ipvs0 are kube-proxy's doing. */
function addressesOf({ state }: NodeView): string[] {
  return state.links
    .filter((link) => link.name !== IPVS_LINK)
    .flatMap((link) => link.addresses)
    .filter(({ address }) => !/^fe[89ab]/i.test(address))
    .map(({ address }) => address)
}
