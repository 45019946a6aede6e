import { isDeepStrictEqual } from 'node:util'
import type { Capture } from '../../cluster/capture-folder.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { Trouble } from '../../grading/failure.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import type { GoodCapture } from './good-captures.ts'
import type { Mutation } from './mutation.ts'

const REASON =
  'In userspace mode rules know no Pod, no Pod range, no mark and no scheduler: kube-proxy programs the same with this changed, and what it does with connections is seen by the real requests of lab 7.'

/** Proves that a change of an object or a setting is harmless because kube-proxy in userspace mode programs every node as before. */
export function sameProgram({ capture }: GoodCapture, mutation: Mutation): string | undefined {
  if (mutation.node !== undefined) return undefined
  const before = programmed(capture)
  return before && isDeepStrictEqual(programmed(mutation.apply(capture)), before) ? REASON : undefined
}

/** What kube-proxy programs on each node; undefined in another mode, and where that can't be predicted. */
function programmed(capture: Capture) {
  const { nodes } = new Snapshot(capture)
  if (!nodes.every(({ mode }) => mode === 'userspace')) return undefined
  try {
    return nodes.map((node) => evaluate(node, 'userspace').expected)
  } catch (error) {
    if (error instanceof Trouble) return undefined
    throw error
  }
}
