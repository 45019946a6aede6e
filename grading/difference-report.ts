import type { Finding, Where } from '../dataplane/compare.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { isEmptyFlush, planFlush } from '../dataplane/kube-proxy/flush.ts'
import { evaluate } from './evaluate.ts'
import { type FailureDetail, fail, onNode, type Words } from './failure.ts'
import type { Difference } from './report-schema.ts'
import { modeOf, type NodeView, stateOf } from './snapshot.ts'

/** Selects the findings of a step. */
export type Concerns = (where: Where, finding: Finding) => boolean

/** What a node has instead of the expected state: as a text, or with further details. */
export type Fault = string | (Partial<FailureDetail> & Pick<FailureDetail, 'actual'>)

/** Expectations of nodes, checked node by node, so that a failure on one is reported even if another can't be read. */
export class OnNodes {
  protected readonly nodes: readonly NodeView[]

  constructor(nodes: readonly NodeView[]) {
    this.nodes = nodes
  }

  /** Fails on the first node with a fault; `inspect` is the command that shows it there. */
  protected each(
    inspect: string | ((node: string) => string),
    expected: string,
    faultOf: (node: NodeView) => Fault | undefined,
    words: Words = {},
  ): void {
    for (const node of this.nodes) {
      const fault = faultOf(node)
      if (fault === undefined) continue
      const found = typeof fault === 'string' ? { actual: fault } : fault
      const command = typeof inspect === 'string' ? onNode(node.name, inspect) : inspect(node.name)
      fail({ node: node.name, inspect: command, expected, ...found, ...words })
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
    const either: Concerns = (where, finding) => this.#concerns(where, finding) || other.#concerns(where, finding)
    return new PredictedPart(this.nodes, either, `${this.inspect}; ${other.inspect}`)
  }

  /** Nothing is missing, left over or out of order. Fails on the first node that differs, with all its differences as lines. */
  equalPrediction(
    mode: KubeProxyMode,
    expected: string,
    { inspect = this.inspect, ...words }: Pick<Words, 'inspect' | 'why' | 'hint'> = {},
  ): void {
    const faultOf = (node: NodeView): Fault | undefined => {
      const findings = evaluate(node, mode).differences.filter((finding) => this.#concerns(finding.where, finding))
      const [first] = findings
      return (
        first && {
          actual: `${first.text}${findings.length > 1 ? `, and ${findings.length - 1} more` : ''}`,
          differences: findings.map(differenceOf),
          ...(words.hint === undefined && adviceFor(node, mode, findings)),
        }
      )
    }
    this.each(inspect, expected, faultOf, words)
  }
}

const differenceOf = ({ kind, text, expected, actual }: Finding): Difference => {
  return { kind: kind === 'order' ? 'wrong' : kind, text, expected, actual }
}

/** Findings about these chains, without jumps to them from other chains. */
export const inChain =
  (...places: string[]) =>
  (where: Where): boolean =>
    'chain' in where && places.includes(`${where.table} ${where.chain}`)

/** Findings about these sets. */
export const inSet =
  (...names: string[]) =>
  (where: Where): boolean =>
    'set' in where && names.includes(where.set)

/** The advice for a difference: a sentence, and the next command. */
export interface Advice {
  hint: string
  next: string
}

/** When kube-proxy writes its complete state (`syncPeriod`); in iptables mode since 1.27 only every hour and at a restart. */
const FULL_SYNC: Partial<Record<KubeProxyMode, string>> = {
  ipvs: 'at its next sync, after 30 seconds at the latest',
  nftables: 'at its next sync, or when it starts',
  iptables: 'only when the Service changes, or when it starts',
}

/** Advice for missing state that kube-proxy of that mode restores periodically or at its restart. */
export function restoredBySync(mode: KubeProxyMode): Advice {
  return {
    hint: `kube-proxy corrects it ${FULL_SYNC[mode] ?? 'when it starts'}. Look again; if it is still so, restart every kube-proxy:`,
    next: `make ${mode} FORCE=1`,
  }
}

/** Advice if kube-proxy runs in another mode than the step requires. */
export const otherMode = (node: string, runs: string, mode: KubeProxyMode): Advice => ({
  hint: `kube-proxy on ${node} runs in ${runs} mode, and this is about ${mode} mode:`,
  next: `make ${mode}`,
})

/** Advice for the differences between a node and the prediction for a mode. It depends on the kinds of difference, not on the step. */
function adviceFor(node: NodeView, mode: KubeProxyMode, findings: readonly Finding[]): Advice {
  const runs = modeOf(node)
  if (runs !== undefined && runs !== mode) return otherMode(node.name, runs, mode)
  const [first] = findings
  const interfering = findings.find(({ interferes }) => interferes)
  if (interfering) return ruleOfOthers(node.name, interfering)
  if (findings.every((finding) => isOfOtherMode(finding, mode)) && leftByOtherMode(node, mode))
    return { hint: 'It is of another mode, and stays until it is removed:', next: 'make flush-nat' }
  if (first?.kind === 'wrong' && 'virtualServer' in first.where && mode === 'ipvs')
    return {
      hint: 'kube-proxy compares weights and methods of real servers only when it starts:',
      next: 'make ipvs FORCE=1',
    }
  return restoredBySync(mode)
}

/** Only IPVS mode has sets, virtual servers and addresses: what is too much of them there, a Service or a person left. */
const isOfOtherMode = ({ kind, where }: Finding, mode: KubeProxyMode) =>
  kind === 'stale' && (mode !== 'ipvs' || 'chain' in where || 'nft' in where)

function leftByOtherMode(node: NodeView, mode: KubeProxyMode): boolean {
  if (mode !== 'ipvs' && mode !== 'iptables' && mode !== 'nftables') return false
  return !isEmptyFlush(planFlush(mode, stateOf(node)))
}

function ruleOfOthers(node: string, { where }: Finding): Advice {
  if ('chain' in where)
    return {
      hint: `This rule is not kube-proxy's, which leaves it where it is. Find its number in the list, and delete it with -D ${where.chain} NUMBER:`,
      next: onNode(node, `iptables -t ${where.table} -nL ${where.chain} --line-numbers`),
    }
  if ('nft' in where) {
    const chain = where.part.replace(/^chain /, '')
    return {
      hint: `This rule is not kube-proxy's, which leaves it where it is. Find its handle in the list, and delete it with nft delete rule ${where.nft} ${chain} handle NUMBER:`,
      next: onNode(node, `nft -a list chain ${where.nft} ${chain}`),
    }
  }
  if ('link' in where)
    return { hint: 'No packet passes a link that is down:', next: onNode(node, `ip link set ${where.link} up`) }
  return restoredBySync('ipvs')
}
