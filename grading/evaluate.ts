import type { Difference } from '../dataplane/compare.ts'
import { observedOptions } from '../dataplane/kube-proxy/circumstances.ts'
import {
  ConfigError,
  type KubeProxyConfig,
  type KubeProxyMode,
} from '../dataplane/kube-proxy/config.ts'
import { type Features, featuresOf, VersionError } from '../dataplane/kube-proxy/versions.ts'
import { differencesOn } from '../dataplane/node-differences.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { PredictError, type PredictOptions } from '../dataplane/predict.ts'
import { fail, Trouble } from './failure.ts'
import { kubeProxyVersionOf, type NodeView, objectsOf, type Snapshot, stateOf } from './snapshot.ts'

/** One node's state and the prediction for it. */
export interface Evaluation {
  /**
   * The state that kube-proxy of the node's version programs, from the objects and its
   * configuration.
   */
  expected: NodeState
  actual: NodeState
  /**
   * Their differences in both directions, and other rules on the node that affect Service packets.
   */
  differences: readonly Difference[]
}

/** Evaluations are cached per NodeView: the steps of a round use parts of the same one. */
const evaluations = new WeakMap<NodeView, Map<KubeProxyMode, Evaluation>>()

/**
 * Predicts and compares one node, for one mode. Throws Trouble if it can't be read or predicted,
 * Failure for a rejected configuration.
 */
export function evaluate(node: NodeView, mode: KubeProxyMode): Evaluation {
  const known = evaluations.get(node) ?? new Map<KubeProxyMode, Evaluation>()
  const before = known.get(mode)
  if (before) return before
  const actual = stateOf(node)
  const { expected, differences } = orTrouble(() =>
    differencesOn(objectsOf(node.snapshot), actual, predictOptions(node, mode)),
  )
  const evaluation = { expected, actual, differences: differences }
  evaluations.set(node, known.set(mode, evaluation))
  return evaluation
}

/**
 * kube-proxy's configuration. Fails when kube-proxy rejects it, because the learner can repair it.
 */
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

/** The inputs of a prediction for a node other than the objects. Throws like evaluate. */
export function predictOptions(node: NodeView, mode: KubeProxyMode): PredictOptions {
  const { name, snapshot } = node
  const version = kubeProxyVersionOf(node)
  const known = { node: name, mode, version, config: configOf(snapshot) }
  return orTrouble(() => observedOptions(objectsOf(snapshot), stateOf(node), known))
}

/** The features of the node's kube-proxy. Throws Trouble for a version that is not modelled. */
export const featuresOn = (node: NodeView): Features =>
  orTrouble(() => featuresOf(kubeProxyVersionOf(node)))

/** The result; throws Trouble instead of an error of the prediction. */
function orTrouble<Result>(predicted: () => Result): Result {
  try {
    return predicted()
  } catch (error) {
    if (error instanceof VersionError || error instanceof PredictError)
      throw new Trouble(error.message)
    throw error
  }
}
