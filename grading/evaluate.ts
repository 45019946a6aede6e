import { linksDown } from '../dataplane/compare/compare-ipvs.ts'
import { compareNodeState, type Finding } from '../dataplane/compare.ts'
import { ConfigError, type KubeProxyConfig, type KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { addressesAtLastSync, heldAddresses } from '../dataplane/kube-proxy/node-addresses.ts'
import { type Features, featuresOf, VersionError } from '../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { PredictError, type PredictOptions, predict } from '../dataplane/predict.ts'
import { findInterference } from '../dataplane/trace/interference.ts'
import type { Packet } from '../dataplane/trace.ts'
import { fail, Trouble } from './failure.ts'
import { kubeProxyVersionOf, type NodeView, objectsOf, type Snapshot, stateOf } from './snapshot.ts'

/** One node's state and the prediction for it. */
export interface Evaluation {
  /** The state that kube-proxy of the node's version programs, from the objects and its configuration. */
  expected: NodeState
  actual: NodeState
  /** Their differences in both directions, and other rules on the node that affect Service packets. */
  differences: readonly Finding[]
}

/** Evaluations are cached per NodeView: the steps of a round use parts of the same one. */
const evaluations = new WeakMap<NodeView, Map<KubeProxyMode, Evaluation>>()

/** Predicts and compares one node, for one mode. Throws Trouble if it can't be read or predicted, Failure for a rejected configuration. */
export function evaluate(node: NodeView, mode: KubeProxyMode): Evaluation {
  const known = evaluations.get(node) ?? new Map<KubeProxyMode, Evaluation>()
  const before = known.get(mode)
  if (before) return before
  const expected = predictOn(node, mode)
  const actual = stateOf(node)
  const { masqueradeBit } = configOf(node.snapshot)
  const differences = [
    ...compareNodeState(expected, actual, { mode }),
    ...findInterference(actual, servicePackets(node), masqueradeBit),
    ...linksDown(actual.links),
  ]
  const evaluation = { expected, actual, differences }
  evaluations.set(node, known.set(mode, evaluation))
  return evaluation
}

/** kube-proxy's configuration. Fails when kube-proxy rejects it, because the learner can repair it. */
export function configOf({ config }: Snapshot): KubeProxyConfig {
  if (config instanceof Trouble) throw config
  if (!(config instanceof ConfigError)) return config
  fail({
    inspect: 'kubectl -n kube-system get configmap kube-proxy -o yaml',
    expected: 'a config.conf that kube-proxy accepts',
    actual: config.message,
    why: 'kube-proxy exits immediately when it cannot read its configuration, and the previous rules stay.',
    hint: 'Correct the field that is named, and restart kube-proxy:',
    next: 'kubectl -n kube-system edit configmap kube-proxy && make ipvs FORCE=1',
  })
}

/** TEST-NET-2 (RFC 5737): a client outside of the cluster. */
const OUTSIDE = '198.51.100.250'

/**
 * The first packets of connections to each IPv4 Service port: from a Pod of the node, from the node itself, from outside; and
 * from a Pod to one local and one remote endpoint of each EndpointSlice, because in IPVS mode only these and replies traverse
 * FORWARD.
 */
function servicePackets({ snapshot, name }: NodeView): Packet[] {
  const objects = objectsOf(snapshot)
  const node = objects.nodes.find((one) => one.name === name)
  const isIPv4 = (address: string) => !address.includes(':')
  const pods = node?.podCIDRs.find(isIPv4)?.replace(/\.\d+\/\d+$/, '.250')
  const own = node?.internalIPs.find(isIPv4)
  const packets: Packet[] = []
  for (const { clusterIPs, ports } of objects.services) {
    const address = clusterIPs.find(isIPv4)
    for (const { port, nodePort, protocol: upper } of ports) {
      const protocol = protocolOf(upper)
      if (address !== undefined) {
        packets.push({ from: 'host', destination: address, port, protocol })
        if (pods !== undefined) packets.push({ from: 'pod', source: pods, destination: address, port, protocol })
      }
      if (own !== undefined && address !== undefined && nodePort !== 0)
        packets.push({ from: 'external', source: OUTSIDE, destination: own, port: nodePort, protocol })
    }
  }
  for (const slice of objects.endpointSlices) {
    const { protocol: upper, port = 0 } = slice.ports[0] ?? {}
    if (slice.addressType !== 'IPv4' || pods === undefined || port === 0) continue
    const protocol = protocolOf(upper)
    for (const isHere of [true, false]) {
      const [destination] = slice.endpoints.find(({ nodeName }) => (nodeName === name) === isHere)?.addresses ?? []
      if (destination !== undefined) packets.push({ from: 'pod', source: pods, destination, port, protocol })
    }
  }
  return packets
}

const protocolOf = (upper = 'TCP') => upper.toLowerCase() as Packet['protocol']

/** The inputs of a prediction for a node other than the objects. Throws like evaluate. */
export function predictOptions(node: NodeView, mode: KubeProxyMode): PredictOptions {
  const { name, snapshot } = node
  const version = kubeProxyVersionOf(node)
  const objects = objectsOf(snapshot)
  const config = configOf(snapshot)
  const state = stateOf(node)
  const nodeAddresses = mode === 'ipvs' ? addressesAtLastSync(objects, name, state) : heldAddresses(state)
  return { node: name, mode, version, config, nodeAddresses }
}

/** The features of the node's kube-proxy. Throws Trouble for a version that is not modelled. */
export function featuresOn(node: NodeView): Features {
  try {
    return featuresOf(kubeProxyVersionOf(node))
  } catch (error) {
    throw error instanceof VersionError ? new Trouble(error.message) : error
  }
}

function predictOn(node: NodeView, mode: KubeProxyMode): NodeState {
  try {
    return predict(objectsOf(node.snapshot), predictOptions(node, mode))
  } catch (error) {
    if (error instanceof VersionError || error instanceof PredictError) throw new Trouble(error.message)
    throw error
  }
}
