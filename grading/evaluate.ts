import { compareNodeState, type Finding } from '../dataplane/compare.ts'
import { ConfigError, type KubeProxyConfig, type KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { VersionError } from '../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { PredictError, predict } from '../dataplane/predict.ts'
import { fail, Trouble } from './failure.ts'
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

/** One node beside the prediction for it. */
export interface Evaluation {
  /** What kube-proxy of that version programs there, from the objects and its configuration. */
  expected: NodeState
  /** What the node holds. */
  actual: NodeState
  /** Where they differ, both ways. */
  differences: readonly Finding[]
}

/** Evaluations live as long as the node's view: every step of a round asks for its own part of the same one. */
const evaluations = new WeakMap<NodeView, Map<KubeProxyMode, Evaluation>>()

/**
 * Predicts and compares one node of a snapshot, for one mode.
 * @throws Trouble when the node or the objects can't be read, or the version can't be predicted
 * @throws Failure when kube-proxy refuses its configuration
 */
export function evaluate(node: NodeView, mode: KubeProxyMode): Evaluation {
  const known = evaluations.get(node) ?? new Map<KubeProxyMode, Evaluation>()
  const before = known.get(mode)
  if (before) return before
  const expected = predictOn(node.snapshot, node, mode)
  const actual = node.state
  const evaluation = { expected, actual, differences: compareNodeState(expected, actual, { mode }) }
  evaluations.set(node, known.set(mode, evaluation))
  return evaluation
}

/** kube-proxy's configuration. Fails when kube-proxy refuses it, because that is the learner's to repair. */
export function configOf({ config }: Snapshot): KubeProxyConfig {
  if (!(config instanceof ConfigError)) return config
  fail({
    look: 'kubectl -n kube-system get configmap kube-proxy -o yaml',
    expected: 'a config.conf that kube-proxy accepts',
    actual: config.message,
    why: 'kube-proxy ends at once when it cannot read its configuration, and the rules of before stay as they were.',
    hint: 'Mend the field that is named, then make ipvs restarts the agents.',
  })
}

function predictOn(snapshot: Snapshot, node: NodeView, mode: KubeProxyMode): NodeState {
  const version = node.kubeProxyVersion
  const { objects } = snapshot
  const config = configOf(snapshot)
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
