// One thing broken on a solved cluster, and the step that must fail.

/** The facts that a breakage may use. */
export interface BreakageEnvironment {
  node: string
  /** ClusterIP of web. */
  web: string
  nodePort: number
  /** Of every virtual server. */
  scheduler: string
  /** A backend of web. */
  backend: string
  clientNode: string
  /** Node of that backend, which sends the requests of step masquerade. */
  backendNode: string
}

export interface Breakage {
  what: string
  /** The step that is about it. */
  step: string
  /** Shell text on the node. */
  break(environment: BreakageEnvironment): string
  /** Shell text that puts back exactly what was broken; without it the iptables tables are restored as they were. */
  repair?(environment: BreakageEnvironment): string
  /** Its effect on packets between nodes is visible at either end. */
  eitherEnd?: true
  /** Made on the node of the client, or of the first backend, instead of any. */
  at?: 'client' | 'backend'
}

const deleteRule = (chain: string, pattern: string, table = 'nat') =>
  `iptables -t ${table} -D ${chain} $(iptables -t ${table} -L ${chain} -n --line-numbers | awk '/${pattern}/ {print $1; exit}')`

/** Applies an edit to one table's text and loads it back in one step. */
const editTable = (table: string, sed: string) => `iptables-save -t ${table} | sed -E '${sed}' | iptables-restore`

const rules: Breakage[] = [
  {
    what: 'the masquerade rule of KUBE-SERVICES is deleted',
    step: 'prerouting',
    break: () => deleteRule('KUBE-SERVICES', 'KUBE-MARK-MASQ'),
  },
  {
    what: 'the accept rule of KUBE-SERVICES is deleted',
    step: 'prerouting',
    break: () => deleteRule('KUBE-SERVICES', 'ACCEPT'),
  },
  {
    what: 'the accept rule of KUBE-SERVICES is moved to the top',
    step: 'prerouting',
    break: () =>
      `${deleteRule('KUBE-SERVICES', 'ACCEPT')}; iptables -t nat -I KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT`,
  },
  {
    what: 'the Pod range in KUBE-SERVICES is altered',
    step: 'prerouting',
    break: () => editTable('nat', 's#(-A KUBE-SERVICES ! -s) [0-9.]+/16#\\1 10.99.0.0/16#'),
  },
  {
    what: 'a foreign rule is before the jump of PREROUTING',
    step: 'prerouting',
    break: () => 'iptables -t nat -I PREROUTING -d 203.0.113.9 -j RETURN',
  },
  {
    what: 'the jump of PREROUTING is deleted',
    step: 'prerouting',
    break: () => deleteRule('PREROUTING', 'KUBE-SERVICES'),
  },
  { what: 'the node-port chain is emptied', step: 'prerouting', break: () => 'iptables -t nat -F KUBE-NODE-PORT' },
  { what: 'the jump of OUTPUT is deleted', step: 'output', break: () => deleteRule('OUTPUT', 'KUBE-SERVICES') },
  {
    what: 'a foreign rule is before the jump of OUTPUT',
    step: 'output',
    break: () => 'iptables -t nat -I OUTPUT -d 203.0.113.9 -j RETURN',
  },
  {
    what: 'another mark is set',
    step: 'output',
    break: () => editTable('nat', 's#^(-A KUBE-MARK-MASQ .*)0x4000/0x4000#\\10x2000/0x2000#'),
  },
  {
    what: 'the jump of POSTROUTING is deleted',
    step: 'postrouting',
    break: () => deleteRule('POSTROUTING', 'KUBE-POSTROUTING'),
  },
  {
    what: 'the hairpin rule is deleted',
    step: 'postrouting',
    break: () => deleteRule('KUBE-POSTROUTING', 'KUBE-LOOP-BACK'),
  },
  {
    what: 'the return of unmarked packets is deleted',
    step: 'postrouting',
    break: () => deleteRule('KUBE-POSTROUTING', 'RETURN'),
  },
  {
    what: 'masquerading lost --random-fully',
    step: 'postrouting',
    break: () => editTable('nat', 's# --random-fully##'),
  },
  {
    what: 'a chain of iptables mode is left',
    step: 'flush',
    break: () => 'iptables -t nat -N KUBE-SEP-AAAAAAAAAAAAAAAA',
  },
  {
    what: 'a jump of iptables mode is left in the filter table',
    step: 'flush',
    break: () =>
      'iptables -N KUBE-EXTERNAL-SERVICES; iptables -I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
  },
  {
    what: 'the forwarding jump is deleted',
    step: 'flush',
    break: () => deleteRule('FORWARD', 'KUBE-FORWARD', 'filter'),
  },
]

const real = ({ web, backend }: BreakageEnvironment) => `-t ${web}:80 -r ${backend}:80`

const sets: Breakage[] = [
  {
    what: 'a member of KUBE-CLUSTER-IP is removed',
    step: 'sets',
    break: ({ web }) => `ipset del KUBE-CLUSTER-IP ${web},tcp:80`,
    repair: ({ web }) => `ipset -exist add KUBE-CLUSTER-IP ${web},tcp:80`,
  },
  {
    what: 'a member is added to KUBE-CLUSTER-IP',
    step: 'sets',
    break: () => 'ipset add KUBE-CLUSTER-IP 10.96.200.200,tcp:80',
    repair: () => 'ipset -exist del KUBE-CLUSTER-IP 10.96.200.200,tcp:80',
  },
  {
    what: 'the node port is removed from its set',
    step: 'sets',
    break: ({ nodePort }) => `ipset del KUBE-NODE-PORT-TCP ${nodePort}`,
    repair: ({ nodePort }) => `ipset -exist add KUBE-NODE-PORT-TCP ${nodePort}`,
  },
  {
    what: 'a member of KUBE-LOOP-BACK is removed',
    step: 'postrouting',
    break: () =>
      "ipset save KUBE-LOOP-BACK | awk '/^add/ {print $3; exit}' >/run/broken-member; ipset del KUBE-LOOP-BACK $(cat /run/broken-member)",
    repair: () => 'ipset -exist add KUBE-LOOP-BACK $(cat /run/broken-member)',
  },
  {
    what: "another node's endpoint is in KUBE-LOOP-BACK",
    step: 'postrouting',
    break: () => 'ipset add KUBE-LOOP-BACK 10.244.77.7,tcp:80,10.244.77.7',
    repair: () => 'ipset -exist del KUBE-LOOP-BACK 10.244.77.7,tcp:80,10.244.77.7',
  },
]

const servers: Breakage[] = [
  {
    what: 'a real server is removed',
    step: 'virtual-servers',
    break: (environment) => `ipvsadm -d ${real(environment)}`,
    repair: (environment) => `ipvsadm -a ${real(environment)} -m -w 1 2>/dev/null || true`,
  },
  {
    what: 'a real server is reweighted',
    step: 'virtual-servers',
    break: (environment) => `ipvsadm -e ${real(environment)} -m -w 5`,
    repair: (environment) => `ipvsadm -e ${real(environment)} -m -w 1`,
  },
  {
    what: 'a real server is bypassed (gatewaying)',
    step: 'virtual-servers',
    break: (environment) => `ipvsadm -e ${real(environment)} -g -w 1`,
    repair: (environment) => `ipvsadm -e ${real(environment)} -m -w 1`,
  },
  {
    what: 'a real server too many',
    step: 'virtual-servers',
    break: ({ web }) => `ipvsadm -a -t ${web}:80 -r 10.244.77.7:80 -m -w 1`,
    repair: ({ web }) => `ipvsadm -d -t ${web}:80 -r 10.244.77.7:80 2>/dev/null || true`,
  },
  {
    what: 'the scheduler of one virtual server is changed',
    step: 'virtual-servers',
    break: ({ web }) => `ipvsadm -E -t ${web}:80 -s wlc`,
    repair: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler}`,
  },
  {
    what: 'a virtual server is persistent',
    step: 'virtual-servers',
    break: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler} -p 60`,
    repair: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler}`,
  },
  {
    what: 'a stale virtual server',
    step: 'virtual-servers',
    break: () => 'ipvsadm -A -t 10.96.200.200:80 -s rr',
    repair: () => 'ipvsadm -D -t 10.96.200.200:80 2>/dev/null || true',
  },
  {
    what: 'a virtual server of the node port is deleted',
    step: 'virtual-servers',
    break: ({ nodePort }) =>
      `ipvsadm -Sn | grep ":${nodePort} " >/run/broken-servers; ipvsadm -Sn | awk '/^-A .*:${nodePort} / {print "-D", $2, $3}' | ipvsadm -R`,
    // kube-proxy's own sync may put it back at the same moment; that the node is whole is waited for afterwards.
    repair: ({ nodePort }) =>
      `ipvsadm -Sn | awk '/^-A .*:${nodePort} / {print "-D", $2, $3}' | ipvsadm -R; ipvsadm -R </run/broken-servers || true`,
  },
]

const links: Breakage[] = [
  {
    what: 'an address of kube-ipvs0 is removed',
    step: 'kube-ipvs0',
    break: ({ web }) => `ip addr del ${web}/32 dev kube-ipvs0`,
    repair: ({ web }) => `ip addr replace ${web}/32 dev kube-ipvs0`,
  },
  {
    what: 'an address is added to kube-ipvs0',
    step: 'kube-ipvs0',
    break: () => 'ip addr add 10.96.200.200/32 dev kube-ipvs0',
    repair: () => 'ip addr del 10.96.200.200/32 dev kube-ipvs0 2>/dev/null || true',
  },
  {
    what: 'kube-ipvs0 is up',
    step: 'kube-ipvs0',
    break: () => 'ip link set kube-ipvs0 up',
    repair: () => 'ip link set kube-ipvs0 down',
  },
  {
    what: 'kube-ipvs0 answers ARP',
    step: 'kube-ipvs0',
    break: () => 'ip link set kube-ipvs0 arp on',
    repair: () => 'ip link set kube-ipvs0 arp off',
  },
]

const traffic: Breakage[] = [
  {
    what: 'a backend is behind a black hole, the others are not',
    step: 'node-port',
    // The one with the fewest connections: scheduler lc passes over a backend that still has more than the others.
    break: ({ nodePort }) =>
      `ipvsadm -Ln | awk '/^TCP/ {on = $2 ~ /^172\\.18\\..*:${nodePort}$/} on && /->/ {split($2, a, ":"); print $5 * 256 + $6, a[1]}' |
        sort -n | head -n 1 | cut -d ' ' -f 2 >/run/black-hole; ip route add blackhole $(cat /run/black-hole)`,
    repair: () => 'ip route del blackhole $(cat /run/black-hole)',
  },
  {
    what: 'packets to the node port are dropped',
    step: 'node-port',
    break: ({ nodePort }) => `iptables -I INPUT -p tcp --dport ${nodePort} -j DROP`,
  },
  {
    what: 'connections of the node are not tracked, so that nothing translates them',
    step: 'conntrack',
    break: ({ web }) => `iptables -t raw -I OUTPUT -d ${web} -j CT --notrack`,
    repair: ({ web }) => `iptables -t raw -D OUTPUT -d ${web} -j CT --notrack`,
  },
  {
    what: 'IPVS connections are not tracked',
    step: 'masquerade',
    at: 'backend',
    break: () => 'sysctl -qw net.ipv4.vs.conntrack=0',
    repair: () => 'sysctl -qw net.ipv4.vs.conntrack=1',
  },
  {
    what: 'packets between Pods are masqueraded',
    step: 'pod-to-service',
    at: 'client',
    break: () => 'iptables -t nat -A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE',
  },
  {
    what: 'packets to a backend are dropped',
    // The rules of others are judged there, and the steps that send requests wait for it.
    step: 'prerouting',
    at: 'client',
    break: ({ backend }) => `iptables -I OUTPUT -d ${backend} -p tcp --dport 80 -j DROP`,
  },
  {
    what: 'a part of what a node sends is lost',
    step: 'node-port',
    eitherEnd: true,
    break: () => 'tc qdisc add dev eth0 root netem loss 20%',
    repair: () => 'tc qdisc del dev eth0 root',
  },
  {
    what: 'what arrives for a backend is dropped before Netfilter sees it',
    step: 'node-port',
    at: 'backend',
    eitherEnd: true,
    break: ({ backend }) =>
      `tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress protocol ip flower dst_ip ${backend} action drop`,
    repair: () => 'tc qdisc del dev eth0 clsact',
  },
  {
    what: 'a node does not forward',
    step: 'node-port',
    at: 'backend',
    eitherEnd: true,
    break: () => 'echo 0 >/proc/sys/net/ipv4/ip_forward',
    repair: () => 'echo 1 >/proc/sys/net/ipv4/ip_forward',
  },
  {
    what: 'what is forwarded is dropped unless a rule accepts it',
    step: 'prerouting',
    break: () => 'iptables -P FORWARD DROP',
    repair: () => 'iptables -P FORWARD ACCEPT',
  },
  {
    what: 'packets to a backend have no route',
    step: 'pod-to-service',
    at: 'client',
    break: ({ backend }) => `ip rule add to ${backend} pref 10 blackhole`,
    repair: ({ backend }) => `ip rule del to ${backend} pref 10 blackhole`,
  },
]

export const breakages: Breakage[] = [...rules, ...sets, ...servers, ...links, ...traffic]
