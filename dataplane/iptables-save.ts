// What `iptables-save` prints:  *nat / :KUBE-SERVICES - [0:0] / -A KUBE-SERVICES … / COMMIT

/** One rule. `spec` is the text after `-A CHAIN `, exactly as iptables-save prints it (no counters). */
export interface Rule {
  spec: string
  packets?: number
  bytes?: number
}

/** One chain: `policy` is ACCEPT or DROP for built-in chains, `-` for the user's own. */
export interface Chain {
  name: string
  policy: string
  packets?: number
  bytes?: number
  rules: Rule[]
}

/** Chains of one table by name, in the order they were declared. */
export type Table = Map<string, Chain>

/** Tables by name (nat, filter, mangle, …). */
export type Ruleset = Map<string, Table>
