import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound } from '../../grading/failure.ts'
import { controlPlaneOf, type NodeView } from '../../grading/snapshot.ts'

/** The node that the text calls $WORKER, which `make exec` chooses without NODE=. */
export function worker({ snapshot, nodes }: CheckContext): NodeView {
  const controlPlane = controlPlaneOf(snapshot)
  const node = nodes.find((one) => one !== controlPlane) ?? nodes[0]
  return expectFound(node, {
    inspect: 'kubectl get nodes',
    expected: 'a node of the cluster',
  })
}
