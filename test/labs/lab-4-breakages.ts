// One thing broken on one machine while lab 4 is solved: the step that must fail.

export interface Breakage {
  what: string
  step: string
  /** The machine on which it is done. */
  at: 'director' | 'worker' | 'outside'
  break: string
  repair: string
  /** The finding names another machine than the broken one: where the loss was noticed. */
  noticed?: 'director' | 'worker'
}

/** Another scheduler in the place of the right one. */
const scheduler = (step: string, service: string, right: string, wrong: string): Breakage => ({
  what: `${wrong} schedules in place of ${right}`,
  step,
  at: 'director',
  break: `ipvsadm -E ${service} -s ${wrong}`,
  repair: `ipvsadm -E ${service} -s ${right}`,
})
const VIP = '192.0.2.10'
const SHARED = '192.0.2.11'
const virtual = (port: number) => `-t ${VIP}:${port}`

export const breakages: Breakage[] = [
  {
    what: 'the director has lost the address',
    step: 'virtual-server',
    at: 'director',
    break: `ip addr del ${VIP}/32 dev lo`,
    repair: `ip addr add ${VIP}/32 dev lo`,
  },
  {
    what: 'IPVS keeps its connections from conntrack',
    step: 'virtual-server',
    at: 'director',
    break: 'sysctl -qw net.ipv4.vs.conntrack=0',
    repair: 'sysctl -qw net.ipv4.vs.conntrack=1',
  },
  {
    what: 'the client has no route',
    step: 'virtual-server',
    at: 'outside',
    noticed: 'director',
    break: 'ip route add prohibit 192.0.2.10/32',
    repair: 'ip route del prohibit 192.0.2.10/32',
  },
  {
    what: 'OUTPUT has lost its probe',
    step: 'hooks',
    at: 'director',
    break: 'iptables -t mangle -D OUTPUT -p tcp --syn --dport 8090 -m comment --comment lab-4',
    repair: 'iptables -t mangle -A OUTPUT -p tcp --syn --dport 8090 -m comment --comment lab-4',
  },
  {
    what: 'the probe in INPUT counts every packet',
    step: 'hooks',
    at: 'director',
    break: 'iptables -t mangle -R INPUT 1 -p tcp --dport 8090 -m comment --comment lab-4',
    repair: 'iptables -t mangle -R INPUT 1 -p tcp --syn --dport 8090 -m comment --comment lab-4',
  },
  {
    what: 'a real server drops what arrives',
    step: 'nat',
    at: 'worker',
    noticed: 'director',
    // The node's own readiness probe comes by lo: without it the Pod would be no real server for
    // the next test, either.
    break: 'iptables -I INPUT ! -i lo -p tcp --dport 8090 -j DROP',
    repair: 'iptables -D INPUT ! -i lo -p tcp --dport 8090 -j DROP',
  },
  {
    what: 'another address is put in as the sender',
    step: 'nat',
    at: 'director',
    noticed: 'worker',
    break: `ip addr add 172.18.77.77/32 dev eth0; iptables -t nat -I POSTROUTING -p tcp --dport 8090 -j SNAT --to-source 172.18.77.77`,
    repair: `iptables -t nat -D POSTROUTING -p tcp --dport 8090 -j SNAT --to-source 172.18.77.77; ip addr del 172.18.77.77/32 dev eth0`,
  },
  {
    what: 'a worker has lost the shared address',
    step: 'direct-routing',
    at: 'worker',
    break: `ip addr del ${SHARED}/32 dev lo`,
    repair: `ip addr add ${SHARED}/32 dev lo`,
  },
  {
    what: 'a real server is reached through a tunnel',
    step: 'direct-routing',
    at: 'director',
    break: `ipvsadm -e -t ${SHARED}:8091 -r $W1:8091 -i`,
    repair: `ipvsadm -e -t ${SHARED}:8091 -r $W1:8091 -g`,
  },
  {
    what: 'tunl0 is down',
    step: 'tunnel',
    at: 'worker',
    break: 'ip link set tunl0 down',
    repair: 'ip link set tunl0 up',
  },
  {
    what: 'tunnelled packets are dropped',
    step: 'tunnel',
    at: 'worker',
    noticed: 'director',
    break: 'iptables -I INPUT -p 4 -j DROP',
    repair: 'iptables -D INPUT -p 4 -j DROP',
  },
  scheduler('turns', virtual(8102), 'wrr', 'rr'),
  {
    what: 'a weight is changed',
    step: 'turns',
    at: 'director',
    break: `ipvsadm -e ${virtual(8102)} -r $W1:8090 -m -w 2`,
    repair: `ipvsadm -e ${virtual(8102)} -r $W1:8090 -m -w 3`,
  },
  scheduler('counting', virtual(8105), 'sed', 'nq'),
  {
    what: 'a real server is missing',
    step: 'counting',
    at: 'director',
    break: `ipvsadm -d ${virtual(8103)} -r $W2:8090`,
    repair: `ipvsadm -a ${virtual(8103)} -r $W2:8090 -m -w 1`,
  },
  scheduler('sources', virtual(8118), 'mh', 'sh'),
  {
    what: 'the director has no route to the clients',
    step: 'sources',
    at: 'director',
    break: 'ip route replace prohibit 198.18.0.0/16',
    repair: 'ip route replace 198.18.0.0/16 via $OUT',
  },
  scheduler('destinations', '-f 8110', 'lblc', 'dh'),
  {
    what: 'a mark is missing',
    step: 'destinations',
    at: 'director',
    break:
      'iptables -t mangle -D PREROUTING -d 198.19.0.0/16 -p tcp --dport 8111 -m comment --comment lab-4-mark -j MARK --set-mark 8111',
    repair:
      'iptables -t mangle -A PREROUTING -d 198.19.0.0/16 -p tcp --dport 8111 -m comment --comment lab-4-mark -j MARK --set-mark 8111',
  },
]

/**
 * A virtual server (or two) whose scheduler is swapped after the snapshot, so that only the
 * measurement can show it.
 */
export interface Swap {
  step: string
  services: string[]
  right: string
  wrong: string
}

export const swaps: Swap[] = [
  { step: 'turns', services: [virtual(8101)], right: 'rr', wrong: 'wrr' },
  { step: 'turns', services: [virtual(8102)], right: 'wrr', wrong: 'rr' },
  { step: 'short-requests', services: [virtual(8114)], right: 'wlc', wrong: 'sed' },
  { step: 'short-requests', services: [virtual(8115)], right: 'sed', wrong: 'wlc' },
  { step: 'short-requests', services: [virtual(8116)], right: 'nq', wrong: 'rr' },
  { step: 'counting', services: [virtual(8103)], right: 'lc', wrong: 'wlc' },
  { step: 'counting', services: [virtual(8104)], right: 'wlc', wrong: 'sed' },
  { step: 'counting', services: [virtual(8105)], right: 'sed', wrong: 'nq' },
  { step: 'counting', services: [virtual(8106)], right: 'nq', wrong: 'wrr' },
  { step: 'sources', services: [virtual(8107), virtual(8117)], right: 'sh', wrong: 'mh' },
  { step: 'sources', services: [virtual(8108), virtual(8118)], right: 'mh', wrong: 'sh' },
  { step: 'destinations', services: ['-f 8109'], right: 'dh', wrong: 'lblc' },
  { step: 'destinations', services: ['-f 8110'], right: 'lblc', wrong: 'lblcr' },
  { step: 'destinations', services: ['-f 8111'], right: 'lblcr', wrong: 'lblc' },
]
