import { type Packet, parsePacket, type Trace } from '../../../dataplane/trace.ts'
import { webPods, worker, worker2 } from './three-nodes.ts'
import { balancerIP, clusterIP, type Mode, nodeOf } from './two-modes.ts'

/** A packet that is really sent, again and again, and how many answers to wait for. */
export interface RealFlow {
  mode: Mode
  /** `client → 10.96.200.4:80`, with the sender's role. */
  name: string
  netns: string | undefined
  source: string | undefined
  packet: Packet
  /** Who answers is not decided by this node's rules, or no endpoint answers. */
  countersOnly: boolean
  /** The first request decides for those that follow. */
  once: boolean
}

const index = { [worker]: 1, [worker2]: 2 } as const

/** Flows that enter one node, of both modes the same. */
export function flowsOf(mode: Mode): RealFlow[] {
  const here = index[nodeOf[mode]]
  const there = here === 1 ? 2 : 1
  const own = `172.18.0.${here + 2}`
  const other = `172.18.0.${there + 2}`
  const senders = {
    client: { netns: `client${here}`, from: `pod:10.244.${here}.9` },
    web: { netns: `web${here}`, from: `pod:${webPods[nodeOf[mode]]}` },
    host: { netns: nodeOf[mode], from: 'host' },
    outside: { netns: undefined, from: 'external:172.18.0.1' },
    stranger: { netns: undefined, from: 'external:203.0.113.9' },
  }
  type Kind = { countersOnly?: boolean; once?: boolean }
  const flow = (sender: keyof typeof senders, to: string, kind: Kind = {}): RealFlow => {
    const { netns, from } = senders[sender]
    const packet = parsePacket(from, to)
    const source = sender === 'stranger' ? packet.source : undefined
    const { countersOnly = false, once = false } = kind
    return { mode, name: `${sender} → ${to}`, netns, source, packet, countersOnly, once }
  }
  const services = ['only1', 'only2', 'none', 'np', 'itp', 'itp1', 'itp2', 'ext'] as const
  const everywhere = (sender: 'client' | 'host'): RealFlow[] => [
    ...services.map((service) => flow(sender, `${clusterIP(service)}:80`)),
    flow(sender, '10.96.200.11:53/udp'),
    flow(sender, '198.51.100.16:80'),
    ...['lb', 'ranges', 'nodes', 'lbl'].map((service) => flow(sender, `${balancerIP(service)}:80`)),
    ...[30003, 30004, 30005, 30006].map((port) => flow(sender, `${own}:${port}`)),
    flow(sender, `${own}:30011/udp`),
    flow(sender, `${other}:${30004 + there}`, { countersOnly: true }),
    flow(sender, `10.244.${here}.5:80`),
    flow(sender, `10.244.${there}.5:80`),
    flow(sender, `${clusterIP('np')}:81`, { countersOnly: true }),
    flow(sender, `${own}:9`, { countersOnly: true }),
  ]
  return [
    ...everywhere('client'),
    flow('client', `${clusterIP('sticky')}:80`, { once: true }),
    flow('client', '10.96.250.250:80', { countersOnly: true }),
    ...['np', `only${here}`, 'itp'].map((service) => flow('web', `${clusterIP(service)}:80`)),
    ...everywhere('host'),
    ...[30003, 30004, 30005, 30006].map((port) => {
      // In ipvs mode a node without an endpoint sends the packet on, and the answer comes from
      // where it was not asked.
      const isLost = mode === 'ipvs' && port === 30004 + there
      return flow('outside', `${own}:${port}`, { countersOnly: isLost })
    }),
    flow('outside', `${own}:30011/udp`),
    ...['lb', 'ranges', 'nodes', 'lbl'].map((service) =>
      flow('outside', `${balancerIP(service)}:80`),
    ),
    ...['lb', 'ranges', 'lbl'].map((service) => flow('stranger', `${balancerIP(service)}:80`)),
    flow('outside', '198.51.100.16:80'),
    flow('outside', `${clusterIP('np')}:80`),
    flow('outside', `${clusterIP('none')}:80`),
    flow('stranger', `${own}:30004`),
  ]
}

/**
 * Sends flows, a line of words each, all in one process, because starting one is what costs here.
 * For each it prints who answered (or `refused`, `timeout`), then the counters of the node. 308 is
 * setns(2) on x86-64, where alone the kernel runs.
 */
export const SENDER = `use IO::Socket::INET; use IO::Select; $| = 1;
sub enter {
  open(my $namespace, '<', $_[0] eq '-' ? '/proc/1/ns/net' : "/run/netns/$_[0]") or die "$_[0]: $!";
  syscall(308, fileno($namespace), 0x40000000) == 0 or die "$_[0]: $!";
}
sub ask {
  my ($proto, $address, $port, $timeout, $source) = @_;
  my $s = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Proto => $proto, Blocking => 0,
    $source eq '-' ? () : (LocalAddr => $source)) or return 'no socket';
  IO::Select->new($s)->can_write($timeout) or return 'timeout';
  return 'refused' if $s->sockopt(SO_ERROR);
  $s->blocking(1);
  $s->send($proto eq 'tcp' ? "GET / HTTP/1.0\\r\\n\\r\\n" : 'who');
  my $answer = '';
  while (IO::Select->new($s)->can_read($timeout)) {
    my $got = sysread($s, my $data, 4096);
    return 'refused' if !defined $got;
    $answer .= $data;
    last if $got == 0 || $proto eq 'udp';
  }
  $answer =~ s/.*\\r\\n\\r\\n//s;
  return $answer || 'timeout';
}
while (<STDIN>) {
  my ($node, $from, $count, @how) = split;
  enter($from);
  print "==flow\\n";
  for (1 .. $count) { my $answer = ask(@how); chomp $answer; print "$answer\\n" }
  enter($node);
  print "==counters\\n", \`iptables-save -c\`;
}`

/**
 * The number of requests in which each outcome of a random choice occurs, except in one of ten
 * thousand runs.
 */
const ENOUGH = { iptables: 16, ipvs: 4 }

/** A flow as the sender reads it. */
export function flowLine(
  { mode, packet, netns, source, countersOnly, once }: RealFlow,
  trace: Trace,
): string {
  const isAnswered = trace.outcomes.length > 0 && !countersOnly
  const count = isAnswered && !once ? (trace.outcomes.length > 1 ? ENOUGH[mode] : 2) : 1
  const { protocol, destination, port } = packet
  const timeout = isAnswered || trace.verdict === 'reject' ? 5 : 0.2
  return [
    nodeOf[mode],
    netns ?? '-',
    count,
    protocol,
    destination,
    port,
    timeout,
    source ?? '-',
  ].join(' ')
}

/** Packets by `table -A CHAIN rule`. */
export function readCounters(text: string): Map<string, number> {
  const counters = new Map<string, number>()
  let table = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1)
    const [, packets, rule] = /^\[(\d+):\d+\] (-A .*)$/.exec(line) ?? []
    if (rule !== undefined) counters.set(`${table} ${rule}`, Number(packets))
  }
  return counters
}
