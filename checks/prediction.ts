import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { VersionError } from '../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { PredictError, predict } from '../dataplane/predict.ts'
import { Trouble } from './failure.ts'
import type { NodeView, Snapshot } from './snapshot.ts'

const IPVS_LINK = 'kube-ipvs0'

/**
 * What kube-proxy should have programmed on one node of a snapshot: from the objects, the configuration and the version in
 * force, and the node's own addresses. Throws Trouble for a version or node that can't be predicted.
 */
export function predictOn(snapshot: Snapshot, node: NodeView, mode: KubeProxyMode): NodeState {
  const version = node.kubeProxyVersion
  const config = snapshot.config
  try {
    return predict(snapshot.objects, { node: node.name, mode, version, config, nodeAddresses: addressesOf(node) })
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
