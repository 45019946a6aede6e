import { describeFlow, type Flow } from './flow.ts'

/** Netfilter's hooks, by the names of their chains. */
export const HOOKS = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'] as const
export type Hook = (typeof HOOKS)[number]

/** One rule, policy or virtual server on the packet's path. */
export interface TraceStep {
  hook: Hook
  /** The iptables table, `ip kube-proxy` for one of nf_tables, or `ipvs`. */
  table: string
  /** The chain, or the virtual server's key. */
  chain: string
  /**
   * The line of iptables-save, nft or ipvsadm -Sn; `-P CHAIN POLICY` or `policy …` at the end of a
   * base chain.
   */
  rule: string
  /** The target's name; JUMP, GOTO, CONTINUE (a rule without target), or NO MATCH. */
  verdict: string
  matched: boolean
  /** Why it matched or not, and its effect. */
  reason: string
  /**
   * What it changed in the packet: `to 10.244.1.6:80`, `source becomes 172.18.0.3`,
   * `mark becomes 0x4000, not tracked`.
   */
  change?: string
  /** The probability of this step for a new connection. */
  probability: number
  /** The packet before the rule. */
  packet: string
  /** The chains from the hook's built-in chain to this one, inclusive. */
  path?: readonly string[]
  /** The chain that a matching rule jumps or goes to. */
  target?: string
}

/** A matching step, for the packet before it. */
export const traceStep = (
  step: Pick<
    TraceStep,
    'hook' | 'table' | 'chain' | 'rule' | 'verdict' | 'reason' | 'change' | 'path'
  >,
  flow: Flow,
): TraceStep => ({
  ...step,
  matched: true,
  probability: flow.probability,
  packet: describeFlow(flow),
})

/** True for the default end of a base chain, which is not informative. */
export const acceptsByPolicy = ({ rule, verdict }: TraceStep): boolean =>
  verdict === 'ACCEPT' && (rule.startsWith('-P ') || rule.startsWith('policy '))
