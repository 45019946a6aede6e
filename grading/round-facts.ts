import { Trouble } from './failure.ts'
import type { RoundFacts } from './grading-request.ts'
import type { Snapshot } from './snapshot.ts'

/** kube-proxy's version and mode, where every node that answers agrees. */
export function roundFacts({ nodes }: Snapshot): RoundFacts {
  const kubeProxy = agreed(nodes.map((node) => asked(() => node.kubeProxyVersion)))
  const mode = agreed(nodes.map((node) => asked(() => node.mode)))
  return { ...(kubeProxy === undefined ? {} : { kubeProxy }), ...(mode === undefined ? {} : { mode }) }
}

/** What the reader of a report has to know beside its verdicts: which objects were left out, and why. */
export const roundNotes = (snapshot: Snapshot): readonly string[] => asked(() => snapshot.leftOut) ?? []

function agreed(values: (string | undefined)[]): string | undefined {
  return new Set(values).size === 1 ? values[0] : undefined
}

function asked<Answer>(question: () => Answer): Answer | undefined {
  try {
    return question()
  } catch (error) {
    if (error instanceof Trouble) return undefined
    throw error
  }
}
