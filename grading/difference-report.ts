import type { Finding, Where } from '../dataplane/compare.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { evaluate } from './evaluate.ts'
import { type FailureDetail, fail } from './failure.ts'
import type { Difference } from './report-schema.ts'
import type { NodeView } from './snapshot.ts'

/** What a comparison is about, for the learner's text. */
export interface Comparison {
  mode: KubeProxyMode
  /** Which findings this step is about. */
  concerns: (where: Where, finding: Finding) => boolean
  /** The command that shows it, without the node. */
  look: string
  /** What must be so: "exactly the prediction's rules in KUBE-SERVICES". */
  expected: string
  why?: string
  hint?: string
}

/**
 * Compares every node with what kube-proxy should have programmed there and fails on the first that differs, with each
 * difference as a MISSING, STALE or WRONG line.
 */
export function mustEqualPrediction(nodes: readonly NodeView[], comparison: Comparison): void {
  const { mode, concerns, look, ...words } = comparison
  for (const node of nodes) {
    const findings = evaluate(node, mode).differences.filter((finding) => concerns(finding.where, finding))
    if (findings.length > 0) fail(failureOf(node.name, look, words, findings))
  }
}

function failureOf(
  node: string,
  look: string,
  words: Pick<Comparison, 'expected' | 'why' | 'hint'>,
  findings: readonly Finding[],
): FailureDetail {
  const first = findings[0]?.text ?? ''
  const more = findings.length > 1 ? `, and ${findings.length - 1} more` : ''
  return {
    node,
    look: onNode(node, look),
    ...words,
    actual: `${first}${more}`,
    differences: findings.map(differenceOf),
  }
}

/** The command as the learner types it to run something on a node. */
export function onNode(node: string, command: string): string {
  return `make exec NODE=${node} CMD='${command}'`
}

function differenceOf({ kind, text, expected, actual }: Finding): Difference {
  return {
    kind: kind === 'order' ? 'wrong' : kind,
    text,
    ...(expected === undefined ? {} : { expected }),
    ...(actual === undefined ? {} : { actual }),
  }
}

/** Findings about one chain, its jumps from elsewhere left out. */
export const inChain =
  (...places: string[]) =>
  (where: Where): boolean =>
    'chain' in where && places.includes(`${where.table} ${where.chain}`)

/** Findings about these sets. */
export const inSet =
  (...names: string[]) =>
  (where: Where): boolean =>
    'set' in where && names.includes(where.set)
