// One thing broken on one node of a cluster on which lab 2 is solved, by the step that must fail. A
// breakage without a repair is undone by restoring the tables of iptables.

import { deleteRule, editTable, listBreakages } from './breakage.ts'

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

const real = ({ web, backend }: BreakageEnvironment) => `-t ${web}:80 -r ${backend}:80`

export const breakages = listBreakages<
  BreakageEnvironment,
  {
    /** Its effect on packets between nodes is visible at either end. */
    eitherEnd?: true
    /** Made on the node of the client, or of the first backend, instead of any. */
    at?: 'client' | 'backend'
  }
>({
  prerouting: {
    'the masquerade rule of KUBE-SERVICES is deleted': deleteRule(
      'KUBE-SERVICES',
      'KUBE-MARK-MASQ',
    ),
    'the accept rule of KUBE-SERVICES is deleted': deleteRule('KUBE-SERVICES', 'ACCEPT'),
    'the accept rule of KUBE-SERVICES is moved to the top': `${deleteRule('KUBE-SERVICES', 'ACCEPT')}; iptables -t nat -I KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT`,
    'the Pod range in KUBE-SERVICES is altered': editTable(
      'nat',
      's#(-A KUBE-SERVICES ! -s) [0-9.]+/16#\\1 10.99.0.0/16#',
    ),
    'a foreign rule is before the jump of PREROUTING':
      'iptables -t nat -I PREROUTING -d 203.0.113.9 -j RETURN',
    'the jump of PREROUTING is deleted': deleteRule('PREROUTING', 'KUBE-SERVICES'),
    'the node-port chain is emptied': 'iptables -t nat -F KUBE-NODE-PORT',
    // The rules of others are judged there, and the steps that send requests wait for it.
    'packets to a backend are dropped': {
      at: 'client',
      break: ({ backend }) => `iptables -I OUTPUT -d ${backend} -p tcp --dport 80 -j DROP`,
    },
    'what is forwarded is dropped unless a rule accepts it': {
      break: 'iptables -P FORWARD DROP',
      repair: 'iptables -P FORWARD ACCEPT',
    },
  },
  output: {
    'the jump of OUTPUT is deleted': deleteRule('OUTPUT', 'KUBE-SERVICES'),
    'a foreign rule is before the jump of OUTPUT':
      'iptables -t nat -I OUTPUT -d 203.0.113.9 -j RETURN',
    'another mark is set': editTable(
      'nat',
      's#(-A KUBE-MARK-MASQ .*)0x4000/0x4000#\\10x2000/0x2000#',
    ),
  },
  postrouting: {
    'the jump of POSTROUTING is deleted': deleteRule('POSTROUTING', 'KUBE-POSTROUTING'),
    'the hairpin rule is deleted': deleteRule('KUBE-POSTROUTING', 'KUBE-LOOP-BACK'),
    'the return of unmarked packets is deleted': deleteRule('KUBE-POSTROUTING', 'RETURN'),
    'masquerading lost --random-fully': editTable('nat', 's# --random-fully##'),
    'a member of KUBE-LOOP-BACK is removed': {
      break:
        "ipset save KUBE-LOOP-BACK | awk '/^add/ {print $3; exit}' >/run/broken-member; ipset del KUBE-LOOP-BACK $(cat /run/broken-member)",
      repair: 'ipset -exist add KUBE-LOOP-BACK $(cat /run/broken-member)',
    },
    "another node's endpoint is in KUBE-LOOP-BACK": {
      break: 'ipset add KUBE-LOOP-BACK 10.244.77.7,tcp:80,10.244.77.7',
      repair: 'ipset -exist del KUBE-LOOP-BACK 10.244.77.7,tcp:80,10.244.77.7',
    },
  },
  flush: {
    'a chain of iptables mode is left': 'iptables -t nat -N KUBE-SEP-AAAAAAAAAAAAAAAA',
    'a jump of iptables mode is left in the filter table':
      'iptables -N KUBE-EXTERNAL-SERVICES; iptables -I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
    'the forwarding jump is deleted': deleteRule('FORWARD', 'KUBE-FORWARD', 'filter'),
  },
  sets: {
    'a member of KUBE-CLUSTER-IP is removed': {
      break: ({ web }) => `ipset del KUBE-CLUSTER-IP ${web},tcp:80`,
      repair: ({ web }) => `ipset -exist add KUBE-CLUSTER-IP ${web},tcp:80`,
    },
    'a member is added to KUBE-CLUSTER-IP': {
      break: 'ipset add KUBE-CLUSTER-IP 10.96.200.200,tcp:80',
      repair: 'ipset -exist del KUBE-CLUSTER-IP 10.96.200.200,tcp:80',
    },
    'the node port is removed from its set': {
      break: ({ nodePort }) => `ipset del KUBE-NODE-PORT-TCP ${nodePort}`,
      repair: ({ nodePort }) => `ipset -exist add KUBE-NODE-PORT-TCP ${nodePort}`,
    },
  },
  'virtual-servers': {
    'a real server is removed': {
      break: (environment) => `ipvsadm -d ${real(environment)}`,
      repair: (environment) => `ipvsadm -a ${real(environment)} -m -w 1 2>/dev/null || true`,
    },
    'a real server is reweighted': {
      break: (environment) => `ipvsadm -e ${real(environment)} -m -w 5`,
      repair: (environment) => `ipvsadm -e ${real(environment)} -m -w 1`,
    },
    'a real server is bypassed (gatewaying)': {
      break: (environment) => `ipvsadm -e ${real(environment)} -g -w 1`,
      repair: (environment) => `ipvsadm -e ${real(environment)} -m -w 1`,
    },
    'a real server too many': {
      break: ({ web }) => `ipvsadm -a -t ${web}:80 -r 10.244.77.7:80 -m -w 1`,
      repair: ({ web }) => `ipvsadm -d -t ${web}:80 -r 10.244.77.7:80 2>/dev/null || true`,
    },
    'the scheduler of one virtual server is changed': {
      break: ({ web }) => `ipvsadm -E -t ${web}:80 -s wlc`,
      repair: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler}`,
    },
    'a virtual server is persistent': {
      break: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler} -p 60`,
      repair: ({ web, scheduler }) => `ipvsadm -E -t ${web}:80 -s ${scheduler}`,
    },
    'a stale virtual server': {
      break: 'ipvsadm -A -t 10.96.200.200:80 -s rr',
      repair: 'ipvsadm -D -t 10.96.200.200:80 2>/dev/null || true',
    },
    // kube-proxy's own sync may put it back at the same moment; that the node is whole is waited
    // for afterwards.
    'a virtual server of the node port is deleted': {
      break: ({ nodePort }) =>
        `ipvsadm -Sn | grep ":${nodePort} " >/run/broken-servers; ipvsadm -Sn | awk '/^-A .*:${nodePort} / {print "-D", $2, $3}' | ipvsadm -R`,
      repair: ({ nodePort }) =>
        `ipvsadm -Sn | awk '/^-A .*:${nodePort} / {print "-D", $2, $3}' | ipvsadm -R; ipvsadm -R </run/broken-servers || true`,
    },
  },
  'kube-ipvs0': {
    'an address of kube-ipvs0 is removed': {
      break: ({ web }) => `ip addr del ${web}/32 dev kube-ipvs0`,
      repair: ({ web }) => `ip addr replace ${web}/32 dev kube-ipvs0`,
    },
    'an address is added to kube-ipvs0': {
      break: 'ip addr add 10.96.200.200/32 dev kube-ipvs0',
      repair: 'ip addr del 10.96.200.200/32 dev kube-ipvs0 2>/dev/null || true',
    },
    'kube-ipvs0 is up': {
      break: 'ip link set kube-ipvs0 up',
      repair: 'ip link set kube-ipvs0 down',
    },
    'kube-ipvs0 answers ARP': {
      break: 'ip link set kube-ipvs0 arp on',
      repair: 'ip link set kube-ipvs0 arp off',
    },
  },
  'node-port': {
    // The one with the fewest connections: scheduler lc passes over a backend that still has more
    // than the others.
    'a backend is behind a black hole, the others are not': {
      break: ({ nodePort }) =>
        `ipvsadm -Ln | awk '/^TCP/ {on = $2 ~ /^172\\.18\\..*:${nodePort}$/} on && /->/ {split($2, a, ":"); print $5 * 256 + $6, a[1]}' |
        sort -n | head -n 1 | cut -d ' ' -f 2 >/run/black-hole; ip route add blackhole $(cat /run/black-hole)`,
      repair: 'ip route del blackhole $(cat /run/black-hole)',
    },
    'packets to the node port are dropped': ({ nodePort }) =>
      `iptables -I INPUT -p tcp --dport ${nodePort} -j DROP`,
    'what arrives for a backend is dropped before Netfilter sees it': {
      at: 'backend',
      eitherEnd: true,
      break: ({ backend }) =>
        `tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress protocol ip flower dst_ip ${backend} action drop`,
      repair: 'tc qdisc del dev eth0 clsact',
    },
    'a node does not forward': {
      at: 'backend',
      eitherEnd: true,
      break: 'echo 0 >/proc/sys/net/ipv4/ip_forward',
      repair: 'echo 1 >/proc/sys/net/ipv4/ip_forward',
    },
    // Last: connections that were cut keep their real servers busy, which scheduler lc passes over
    // afterwards.
    'a part of what a node sends is lost': {
      eitherEnd: true,
      break: 'tc qdisc add dev eth0 root netem loss 20%',
      repair: 'tc qdisc del dev eth0 root',
    },
  },
  conntrack: {
    'connections of the node are not tracked, so that nothing translates them': {
      break: ({ web }) => `iptables -t raw -I OUTPUT -d ${web} -j CT --notrack`,
      repair: ({ web }) => `iptables -t raw -D OUTPUT -d ${web} -j CT --notrack`,
    },
  },
  masquerade: {
    'IPVS connections are not tracked': {
      at: 'backend',
      break: 'sysctl -qw net.ipv4.vs.conntrack=0',
      repair: 'sysctl -qw net.ipv4.vs.conntrack=1',
    },
  },
  'pod-to-service': {
    'packets between Pods are masqueraded': {
      at: 'client',
      break: 'iptables -t nat -A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE',
    },
    'packets to a backend have no route': {
      at: 'client',
      break: ({ backend }) => `ip rule add to ${backend} pref 10 blackhole`,
      repair: ({ backend }) => `ip rule del to ${backend} pref 10 blackhole`,
    },
  },
})
