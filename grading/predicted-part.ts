import type { Difference, Where } from '../dataplane/compare.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { adviceFor } from './advice.ts'
import { evaluate } from './evaluate.ts'
import { type FailureDetail, type FailureText, fail, onNode } from './failure.ts'
import type { NodeView } from './snapshot.ts'

/** Selects the differences of a step. */
export type Concerns = (where: Where, difference: Difference) => boolean

/** What a node has instead of the expected state: as a text, or with further details. */
export type Mismatch = string | (Partial<FailureDetail> & Pick<FailureDetail, 'actual'>)

/**
 * Expectations of nodes, checked node by node, so that a failure on one is reported even if another
 * can't be read.
 */
export class OnNodes {
  protected readonly nodes: readonly NodeView[]

  constructor(nodes: readonly NodeView[]) {
    this.nodes = nodes
  }

  /** Fails on the first node that differs; `inspect` is the command that shows it there. */
  protected each(
    inspect: string | ((node: string) => string),
    expected: string,
    mismatchOf: (node: NodeView) => Mismatch | undefined,
    texts: FailureText = {},
  ): void {
    for (const node of this.nodes) {
      const mismatch = mismatchOf(node)
      if (mismatch === undefined) continue
      const found = typeof mismatch === 'string' ? { actual: mismatch } : mismatch
      const command = typeof inspect === 'string' ? onNode(node.name, inspect) : inspect(node.name)
      fail({ node: node.name, inspect: command, expected, ...found, ...texts })
    }
  }
}

/** A part of the nodes' state, compared with the prediction. */
export class PredictedPart extends OnNodes {
  readonly #concerns: Concerns
  protected readonly inspect: string

  /** @param inspect the command to inspect it, without the node */
  constructor(nodes: readonly NodeView[], concerns: Concerns, inspect: string) {
    super(nodes)
    this.#concerns = concerns
    this.inspect = inspect
  }

  /** This part together with another one. */
  and(other: PredictedPart): PredictedPart {
    const either: Concerns = (where, difference) =>
      this.#concerns(where, difference) || other.#concerns(where, difference)
    return new PredictedPart(this.nodes, either, `${this.inspect}; ${other.inspect}`)
  }

  /**
   * Nothing is missing, left over or out of order. Fails on the first node that differs, with all
   * its differences as lines.
   */
  equalPrediction(
    mode: KubeProxyMode,
    expected: string,
    { inspect = this.inspect, ...texts }: Pick<FailureText, 'inspect' | 'why' | 'hint'> = {},
  ): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const differences = evaluate(node, mode).differences.filter((difference) =>
        this.#concerns(difference.where, difference),
      )
      const [first] = differences
      return (
        first && {
          actual: `${first.text}${differences.length > 1 ? `, and ${differences.length - 1} more` : ''}`,
          differences,
          ...(texts.hint === undefined && adviceFor(node, mode, differences)),
        }
      )
    }
    this.each(inspect, expected, mismatchOf, texts)
  }
}

/** Differences in these chains of iptables, without jumps to them from other chains. */
export const inChain =
  (...places: string[]) =>
  (where: Where): boolean =>
    'chain' in where &&
    where.family === undefined &&
    places.includes(`${where.table} ${where.chain}`)

/** Differences in these sets. */
export const inSet =
  (...names: string[]) =>
  (where: Where): boolean =>
    'set' in where && names.includes(where.set)
