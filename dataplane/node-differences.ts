import { linksDown } from './compare/compare-ipvs.ts'
import { compareNodeState, type Difference } from './compare.ts'
import { defaultConfig } from './kube-proxy/config.ts'
import type { NodeState } from './node-state.ts'
import type { ClusterObjects } from './objects.ts'
import { type PredictOptions, predict } from './predict.ts'
import { findInterference } from './trace/interference.ts'
import { servicePackets } from './trace/service-packets.ts'

/** A node's prediction, and everything in which its state differs. */
export interface NodeDifferences {
  expected: NodeState
  /**
   * Differences in both directions, and what is not kube-proxy's but affects Service packets
   * (`interferes`).
   */
  differences: Difference[]
}

/**
 * Predicts a node and compares its state, for the grader as for scripts/expect.ts.
 * @param options of `observedOptions`
 * @param untouched one kube-proxy in one mode wrote the node's state: the order of its jumps is
 * compared too
 * @throws VersionError and PredictError as predict does
 */
export function differencesOn(
  objects: ClusterObjects,
  actual: NodeState,
  options: PredictOptions,
  untouched = false,
): NodeDifferences {
  const expected = predict(objects, options)
  const { masqueradeBit } = options.config ?? defaultConfig()
  // The packets are those of IPv4, which no rule of ip6tables sees.
  const packets = options.family === 'ipv6' ? [] : servicePackets(objects, options.node)
  const differences = [
    ...compareNodeState(expected, actual, { mode: options.mode, untouched }),
    ...findInterference(actual, packets, masqueradeBit),
    ...linksDown(actual.links),
  ]
  return { expected, differences }
}
