// One thing broken on one node of a cluster on which lab 1 is solved, and the step that must fail.

export interface BreakageEnvironment {
  node: string
  /** ClusterIPs. */
  web: string
  mirror: string
  nobody: string
  threePorts: string
  webChain: string
}

export interface Breakage {
  what: string
  step: string
  /** Shell text on the node; the tables of iptables are put back as they were afterwards. */
  break(environment: BreakageEnvironment): string
  /** What else has to be put back. */
  repair?(environment: BreakageEnvironment): string
  /** Made on the node of the client (with the probes), of the Pod mirror, or on one with neither. */
  at: 'client' | 'mirror' | 'other'
}

/** Applies an edit to one table's text and loads it back in one step. */
const editTable = (table: string, sed: string) =>
  `iptables-save -c -t ${table} | sed -E '${sed}' | iptables-restore -c -T ${table}`
const deleteLine = (table: string, pattern: string) => editTable(table, `/${pattern.replaceAll('/', '\\/')}/d`)

export const breakages: Breakage[] = [
  {
    what: 'a rule of a Service that the lab does not use is deleted',
    step: 'whole',
    at: 'other',
    break: () => deleteLine('nat', '-A KUBE-SERVICES .*kube-dns:metrics'),
  },
  {
    what: 'a chain of a Service that is long gone is left',
    step: 'whole',
    at: 'other',
    break: () => 'iptables -t nat -N KUBE-SVC-LONGGONELONGGONE',
    repair: () => 'iptables -t nat -X KUBE-SVC-LONGGONELONGGONE 2>/dev/null; true',
  },
  { what: 'a probe is deleted', step: 'probes', at: 'client', break: () => deleteLine('mangle', '-A FORWARD .*probe') },
  {
    what: 'the probe of a hook counts another port',
    step: 'three-ways',
    at: 'client',
    break: () => editTable('mangle', 's/(-A OUTPUT .*--dport) 10256/\\1 10257/'),
  },
  {
    what: 'the node refuses to forward the packet',
    step: 'three-ways',
    at: 'client',
    break: () => 'iptables -I FORWARD -p tcp --dport 10256 -j REJECT',
  },
  {
    what: 'the counters are zero',
    step: 'three-ways',
    at: 'client',
    break: () => 'iptables -t mangle -Z',
  },
  {
    what: 'another node has a probe, too',
    step: 'namespaces',
    at: 'other',
    break: () => 'iptables -t mangle -A INPUT -p tcp --syn --dport 10256 -m comment --comment probe',
  },
  {
    what: 'a probe of ip6tables is deleted',
    step: 'families',
    at: 'client',
    break: () => 'ip6tables -t mangle -D OUTPUT 1',
    repair: () => 'ip6tables -t mangle -A OUTPUT -p tcp --syn --dport 10256 -m comment --comment probe',
  },
  {
    what: 'the entry of web in KUBE-SERVICES is deleted',
    step: 'chains',
    at: 'other',
    break: ({ web }) => deleteLine('nat', `-A KUBE-SERVICES .*-d ${web}/32`),
  },
  {
    what: "a rule of web's chain is deleted",
    step: 'chains',
    at: 'other',
    break: ({ webChain }) => `iptables -t nat -D ${webChain} 3`,
  },
  {
    what: "web's chain leads to an endpoint twice",
    step: 'chains',
    at: 'other',
    break: ({ webChain }) =>
      `iptables -t nat -A ${webChain} -j $(iptables -t nat -S ${webChain} | sed -n 's/.*-j \\(KUBE-SEP-[A-Z0-9]*\\)$/\\1/p' | head -n 1)`,
  },
  {
    what: 'a DNAT goes to another Pod',
    step: 'chains',
    at: 'other',
    break: () => editTable('nat', 's#(-A KUBE-SEP-.*"default/web".*--to-destination) [0-9.]+:80#\\1 10.244.77.7:80#'),
  },
  {
    what: 'a foreign rule is before the jump of PREROUTING',
    step: 'chains',
    at: 'other',
    break: () => 'iptables -t nat -I PREROUTING -d 203.0.113.9 -j RETURN',
  },
  {
    what: 'the jump of OUTPUT is deleted',
    step: 'chains',
    at: 'other',
    break: () => deleteLine('nat', '-A OUTPUT .*KUBE-SERVICES'),
  },
  {
    what: 'an interface has a ClusterIP',
    step: 'no-address',
    at: 'other',
    break: ({ web }) => `ip addr add ${web}/32 dev lo`,
    repair: ({ web }) => `ip addr del ${web}/32 dev lo`,
  },
  {
    what: 'the first Pod is drawn nine times of ten',
    step: 'shares',
    at: 'other',
    break: ({ webChain }) => editTable('nat', `s/(-A ${webChain} .*--probability) 0.2[0-9]*/\\1 0.90000000000/`),
  },
  {
    what: 'packets of the client to web are refused',
    step: 'shares',
    at: 'client',
    break: () => 'iptables -I FORWARD -p tcp --dport 80 -j REJECT',
  },
  {
    what: 'an entry of a Service port is deleted',
    step: 'ports',
    at: 'other',
    break: ({ threePorts }) => deleteLine('nat', `-A KUBE-SERVICES .*-d ${threePorts}/32 .*--dport 8002 `),
  },
  {
    what: 'the endpoint of mirror is not marked when it calls itself',
    step: 'hairpin',
    at: 'mirror',
    break: () => deleteLine('nat', '-A KUBE-SEP-.*default/mirror.*KUBE-MARK-MASQ'),
  },
  {
    what: 'what is marked is not masqueraded',
    step: 'hairpin',
    at: 'mirror',
    break: () => deleteLine('nat', '-A KUBE-POSTROUTING .*-j MASQUERADE'),
  },
  {
    what: 'no rule rejects packets for the Service nobody',
    step: 'no-endpoints',
    at: 'other',
    break: ({ nobody }) => deleteLine('filter', `-A KUBE-SERVICES .*-d ${nobody}/32`),
  },
  {
    what: 'packets for the Service nobody are dropped',
    step: 'no-endpoints',
    at: 'other',
    break: ({ nobody }) => `iptables -I OUTPUT -d ${nobody} -j DROP`,
  },
]
