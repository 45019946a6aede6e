export type Hook = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING'

/** One rule, policy or virtual server that the packet met. */
export interface Step {
  hook: Hook
  /** The iptables table, `ip kube-proxy` for one of nf_tables, or `ipvs`. */
  table: string
  /** The chain, or the virtual server's key. */
  chain: string
  /** The line as iptables-save, nft or ipvsadm -Sn prints it; `-P CHAIN POLICY` or `policy …` at the end of a base chain. */
  rule: string
  /** The target's name; JUMP, GOTO, CONTINUE (a rule without target), or NO MATCH. */
  verdict: string
  matched: boolean
  /** Why it matched or did not, and what it did. */
  reason: string
  /** The chance that a new connection takes this step. */
  probability: number
  /** The packet as it was when it reached the rule. */
  packet: string
  /** The chains that led to this one, from the hook's on, with this one at the end. */
  path?: readonly string[]
  /** The chain that a matching rule jumps or goes to. */
  target?: string
}

/** The usual end of a base chain, of which a reader learns nothing. */
export const acceptsByPolicy = ({ rule, verdict }: Step): boolean =>
  verdict === 'ACCEPT' && (rule.startsWith('-P ') || rule.startsWith('policy '))
