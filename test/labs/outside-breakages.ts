// One thing broken on one node of a cluster that solved lab 3, and the steps that must fail.

/** The facts that a breakage may use. */
export interface OutsideEnvironment {
  /** The node port of web-np. */
  nodePort: number
  /** web-lb: address, health check port, and the hash in its chains' names. */
  balanced: { address: string; healthPort: number; hash: string }
  /** The hashes in the names of the chains of web and web-np. */
  web: string
  exposed: string
}

export interface OutsideBreakage {
  what: string
  /** The steps that must fail. */
  steps: string[]
  /** By default on a worker. */
  at?: 'control-plane'
  break(environment: OutsideEnvironment): string
  /** Without it the iptables tables are restored as they were. */
  repair?(environment: OutsideEnvironment): string
}

const deleteRule = (table: string, chain: string, pattern: string) =>
  `iptables -t ${table} -D ${chain} $(iptables -t ${table} -L ${chain} -n --line-numbers | awk '/${pattern}/ {print $1; exit}')`

/** A foreign rule that drops packets before any rule of a Service; its table may not be there to be restored. */
const raw = (action: '-I' | '-D', match: string) => `iptables -t raw ${action} PREROUTING ${match} -j DROP`

export const outsideBreakages: OutsideBreakage[] = [
  {
    what: 'a rule of a Service that the lab does not use is deleted',
    steps: ['whole'],
    break: () => deleteRule('nat', 'KUBE-SERVICES', 'kube-dns:metrics'),
  },
  {
    what: 'a chain of a Service that is long gone is left',
    steps: ['whole'],
    at: 'control-plane',
    break: () => 'iptables -t nat -N KUBE-SVL-LONGGONELONGGONE',
    repair: () => 'iptables -t nat -X KUBE-SVL-LONGGONELONGGONE 2>/dev/null; true',
  },
  {
    what: "web's own chain is emptied",
    steps: ['web'],
    break: ({ web }) => `iptables -t nat -F KUBE-SVC-${web}`,
  },
  {
    what: 'the jump to KUBE-NODEPORTS is deleted',
    steps: ['node-port'],
    break: () => deleteRule('nat', 'KUBE-SERVICES', 'KUBE-NODEPORTS'),
  },
  {
    what: 'another rule follows the jump to KUBE-NODEPORTS',
    steps: ['node-port'],
    break: () => 'iptables -t nat -A KUBE-SERVICES -d 203.0.113.9 -j RETURN',
  },
  {
    what: 'packets to the node port are dropped',
    steps: ['node-port', 'cluster-policy'],
    at: 'control-plane',
    break: ({ nodePort }) => raw('-I', `-p tcp --dport ${nodePort}`),
    repair: ({ nodePort }) => raw('-D', `-p tcp --dport ${nodePort}`),
  },
  {
    what: 'the mark for what comes from outside is deleted',
    steps: ['cluster-policy'],
    break: ({ exposed }) => deleteRule('nat', `KUBE-EXT-${exposed}`, 'KUBE-MARK-MASQ'),
  },
  {
    what: 'marked packets slip past the masquerade',
    steps: ['cluster-policy'],
    at: 'control-plane',
    break: () => 'iptables -t nat -I POSTROUTING -m mark --mark 0x4000/0x4000 -j ACCEPT',
  },
  {
    what: "the rule for the load balancer's address is deleted",
    steps: ['load-balancer'],
    break: ({ balanced }) => deleteRule('nat', 'KUBE-SERVICES', balanced.address),
  },
  {
    what: "packets to the load balancer's address are dropped",
    steps: ['load-balancer'],
    break: ({ balanced }) => raw('-I', `-d ${balanced.address}`),
    repair: ({ balanced }) => raw('-D', `-d ${balanced.address}`),
  },
  {
    what: "the way to the node's own Pods is deleted",
    steps: ['local-policy'],
    break: ({ balanced }) => deleteRule('nat', `KUBE-EXT-${balanced.hash}`, 'KUBE-SVL'),
  },
  {
    what: 'a node without Pods uses those of others',
    steps: ['local-policy'],
    at: 'control-plane',
    break: ({ balanced }) => `iptables -t nat -A KUBE-EXT-${balanced.hash} -j KUBE-SVC-${balanced.hash}`,
  },
  {
    what: 'another rule masquerades packets to Pods',
    steps: ['local-policy'],
    break: () => 'iptables -t nat -I POSTROUTING -d 10.244.0.0/16 -j MASQUERADE',
  },
  {
    what: 'health checks are dropped',
    steps: ['health-check'],
    break: ({ balanced }) => `iptables -I INPUT -p tcp --dport ${balanced.healthPort} -j DROP`,
  },
  {
    what: 'the rule that lets health checks in is deleted',
    steps: ['health-check'],
    at: 'control-plane',
    break: ({ balanced }) => deleteRule('filter', 'KUBE-NODEPORTS', `dpt:${balanced.healthPort}`),
  },
  {
    what: 'one Pod gets nothing from its node',
    steps: ['anti-affinity'],
    break: ({ balanced }) => `iptables -t nat -D KUBE-SVL-${balanced.hash} 1`,
  },
  {
    what: 'the drop of strangers is deleted',
    steps: ['source-ranges'],
    break: () => 'iptables -F KUBE-PROXY-FIREWALL',
  },
]
