// A node of nftables mode in namespaces of this machine's own kernel: senders, Pods, and
// `nft monitor trace` beside them.

import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { readCapturedNode } from '../../dataplane/capture.ts'
import type { NodeState } from '../../dataplane/node-state.ts'

/**
 * Namespaces with their addresses; each is linked to the node by a link of its own, `peers` by a
 * network of their own.
 */
const PODS = { client: '10.244.1.99', web1: '10.244.1.6', web2: '10.244.1.7' }
const PEERS = { node: '172.18.0.3', outside: '172.18.0.1', other: '172.18.0.4' }

const SETUP = `set -e
mount -t tmpfs tmpfs /run
ip link add br0 type bridge
ip link set br0 up
for net in ${Object.keys({ ...PODS, ...PEERS }).join(' ')}; do ip netns add $net; ip -n $net link set lo up; done
for peer in ${Object.entries(PEERS).join(' ')}; do
  ip link add v-\${peer%,*} type veth peer name eth0 netns \${peer%,*}
  ip link set v-\${peer%,*} master br0 up
  ip -n \${peer%,*} addr add \${peer#*,}/16 dev eth0
  ip -n \${peer%,*} link set eth0 up
done
ip netns exec node sh -c 'cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 0 > icmp_ratelimit'
ip -n node route add default via 172.18.0.1
for net in 10.244.0.0/24 10.244.2.0/24; do ip -n node route add $net via 172.18.0.4; done
for pod in ${Object.entries(PODS).join(' ')}; do
  ip link add veth-\${pod%,*} netns node type veth peer name eth0 netns \${pod%,*}
  ip -n node addr add 10.244.1.1/32 dev veth-\${pod%,*}
  ip -n node link set veth-\${pod%,*} up
  ip -n node route add \${pod#*,} dev veth-\${pod%,*}
  ip -n \${pod%,*} addr add \${pod#*,}/32 dev eth0
  ip -n \${pod%,*} link set eth0 up
  ip -n \${pod%,*} route add default via 10.244.1.1 dev eth0 onlink
done
for address in 10.244.2.4 10.244.0.3 10.244.0.4; do ip -n other addr add $address/32 dev lo; done
ip -n other route add 10.244.1.0/24 via 172.18.0.3
ip -n outside addr add 203.0.113.9/32 dev lo
ip -n other route add 203.0.113.9 via 172.18.0.1
for to in 10.96.119.228 10.96.0.10 10.244.1.0/24 172.18.255.200 192.0.2.10; do ip -n outside route add $to via 172.18.0.3; done
`

/**
 * Backends answer with the address they were reached at and the sender's. 308 is setns(2) on
 * x86-64, 268 on arm64.
 */
const DRIVER = `use IO::Socket::INET; use IO::Select; use POSIX (); $| = 1;
my $setns = (POSIX::uname())[4] eq 'aarch64' ? 268 : 308;
sub enter {
  open(my $namespace, '<', "/run/netns/$_[0]") or die "$_[0]: $!";
  syscall($setns, fileno($namespace), 0x40000000) == 0 or die "$_[0]: $!";
}
sub serve {
  my ($net, @addresses) = @_;
  my $listening = pipe(my $ready, my $tell);
  return sysread($ready, my $byte, 1) if fork;
  enter($net);
  my %tcp = map { $_ => IO::Socket::INET->new(LocalPort => $_, Listen => 64, ReuseAddr => 1) } 80, 53, 9153;
  my @udp = map { IO::Socket::INET->new(LocalAddr => $_, LocalPort => 53, Proto => 'udp') } @addresses;
  my $all = IO::Select->new(values %tcp, @udp);
  syswrite($tell, '.');
  while (1) {
    for my $s ($all->can_read) {
      if (grep { $_ == $s } @udp) { $s->recv(my $data, 99); $s->send($s->sockhost . ' ' . $s->peerhost); next }
      my $c = $s->accept or next;
      print $c $c->sockhost, ' ', $c->peerhost, "\\n";
    }
  }
}
sub ask {
  my ($local, $proto, $address, $port, $timeout, $source) = @_;
  my $s = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Proto => $proto, Blocking => 0,
    LocalPort => $local, $source eq '-' ? () : (LocalAddr => $source)) or return "no socket $!";
  IO::Select->new($s)->can_write($timeout) or return 'timeout';
  return 'refused' if $s->sockopt(SO_ERROR);
  $s->blocking(1);
  $s->send('who') if $proto eq 'udp';
  my $answer = '';
  while (IO::Select->new($s)->can_read($timeout)) {
    my $got = sysread($s, my $data, 4096);
    return 'refused' if !defined $got;
    $answer .= $data;
    last if $got == 0 || $proto eq 'udp';
  }
  return $answer || 'timeout';
}
serve($_) for qw(client web1 web2 outside node);
serve('other', '10.244.0.3', '10.244.0.4');
my ($monitor, $pid);
my $printed = '';
my $marks = 0;
# Sends packets to a port of their own until the monitor prints one: it has printed everything before, too.
sub await_monitor {
  enter('node');
  my $port = 20000 + ++$marks % 40000;
  my $ready = IO::Select->new($monitor);
  for (1 .. 50) {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'udp')->send('x');
    while ($ready->can_read(0.1)) {
      sysread($monitor, my $data, 65536) or die 'the monitor has ended';
      $printed .= $data;
      return if index($printed, "udp dport $port ") >= 0;
    }
  }
  die 'the monitor is silent';
}
while (<STDIN>) {
  my ($what, @how) = split;
  if ($what eq 'load') {
    enter('node');
    open(my $nft, '|-', 'nft -f -') or die $!;
    while (defined(my $line = <STDIN>)) { last if $line eq "==end\\n"; print $nft $line }
    close($nft) or print "nft failed\\n";
    # A monitor knows the rules that were there when it began.
    if ($pid) { kill 9, $pid; close $monitor }
    $pid = open($monitor, '-|', 'nft', 'monitor', 'trace') or die $!;
    $printed = '';
    # It prints nothing of the packets that came before it had subscribed.
    await_monitor();
  } elsif ($what eq 'read') {
    enter('node');
    print "==$_\\n", \`$_\`, "\\n" for 'nft -j list table ip kube-proxy', 'ip -j -d addr', 'ip route';
  } else {
    my $count = shift @how;
    my $local = shift @how;
    # A packet of another sender crosses the node meanwhile.
    enter('web2');
    IO::Socket::INET->new(PeerAddr => '192.0.2.99', PeerPort => 9, Proto => 'udp')->send('x');
    enter($what);
    for (1 .. $count) { my $answer = ask($local++, @how); chomp $answer; print "$answer\\n"; last if $answer eq 'timeout' }
    await_monitor();
    my $whole = rindex($printed, "\\n") + 1;
    print substr($printed, 0, $whole);
    $printed = substr($printed, $whole);
  }
  print "\\n==end\\n";
}
kill 9, -$$;
`

/** Marks first packets, once connection tracking knows them, for \`nft monitor trace\`. */
const TRACER = `add table ip tracer
delete table ip tracer
table ip tracer {
  chain in { type filter hook prerouting priority -199; ct state new meta nftrace set 1; }
  chain out { type filter hook output priority -199; ct state new meta nftrace set 1; }
}
`

/** `nft` of this machine, else the one that the embedded cluster unpacked. */
const PACKAGES = join(import.meta.dirname, '../../.cache/packages')
const trees = existsSync(PACKAGES)
  ? readdirSync(PACKAGES).map((name) => join(PACKAGES, name, 'usr'))
  : []
const paths = (...folders: string[]): string =>
  trees.flatMap((tree) => folders.map((folder) => join(tree, folder))).join(':')
const env = {
  ...process.env,
  PATH: `${process.env.PATH}:/usr/sbin:/sbin:${paths('sbin', 'bin')}`,
  LD_LIBRARY_PATH: `${process.env.LD_LIBRARY_PATH ?? ''}:${paths('lib/x86_64-linux-gnu', 'lib/aarch64-linux-gnu')}`,
}

/** Why this machine cannot run such a node, in a few words; undefined where it can. */
export function whyNot(): string | undefined {
  const script = `mount -t tmpfs t /run && ip netns add a && ip netns exec a nft -f - <<'END'
table ip t { chain c { type nat hook postrouting priority 100; masquerade fully-random; }; }
END`
  const { status, stderr, error } = spawnSync('unshare', ['-Urnm', 'sh', '-c', script], {
    encoding: 'utf8',
    env,
  })
  if (error) return error.message
  return status === 0 ? undefined : stderr.trim().split('\n')[0] || `unshare ended with ${status}`
}

/**
 * The numbers of the scripts that `nft -f` and this kernel refuse in a network namespace, from 1
 * on.
 */
export function refusedScripts(scripts: readonly string[]): string[] {
  const commands = scripts.map(
    (script, index) =>
      `nft -f - >&2 <<'END-OF-SCRIPT' || echo ${index + 1}\n${script}\nEND-OF-SCRIPT\n`,
  )
  const { stdout, error } = spawnSync('unshare', ['-Urn', 'sh'], {
    input: commands.join(''),
    encoding: 'utf8',
    env,
  })
  if (error) throw error
  return stdout.split('\n').filter((line) => line !== '')
}

/**
 * What came of some connections: who answered whom (or `refused`, `timeout`), and `chain rule` of
 * each rule that matched. The monitor may report a match after the answer: `matched` is complete
 * once the next connections have ended.
 */
export interface Observed {
  answers: string[]
  matched: Set<string>
}

export class NftNode {
  readonly #process: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  readonly #reader: Interface
  /**
   * By source port and by trace id: where the rules that such a packet matches are collected. Each
   * connection has a port of its own.
   */
  readonly #byPort = new Map<number, Set<string>>()
  readonly #byTraceId = new Map<string, Set<string> | undefined>()
  #errors = ''

  constructor() {
    const script = `${SETUP}\nexec perl -e "$DRIVER"`
    this.#process = spawn('unshare', ['-Urnmpf', '--kill-child', 'bash', '-c', script], {
      env: { ...env, DRIVER },
    })
    this.#process.stderr.on('data', (data) => {
      this.#errors += data
    })
    this.#reader = createInterface({ input: this.#process.stdout })
    this.#lines = this.#reader[Symbol.asyncIterator]()
  }

  stop(): void {
    this.#reader.close()
    this.#process.kill('SIGKILL')
  }

  async #ask(text: string): Promise<string[]> {
    this.#process.stdin.write(text)
    const lines: string[] = []
    for (;;) {
      const { value, done } = await this.#lines.next()
      if (done) throw new Error(`the node ended: ${this.#errors}`)
      if (value === '==end') break
      if (value !== '') lines.push(value)
    }
    return lines
  }

  /** Replaces kube-proxy's table by a script for \`nft -f\`. */
  async load(script: string): Promise<void> {
    const output = await this.#ask(`load\n${TRACER}${script}==end\n`)
    if (output.length > 0) throw new Error(`${output.join('\n')}: ${this.#errors}`)
  }

  /** The node as a capture would have it. */
  async read(): Promise<NodeState> {
    const text = (await this.#ask('read\n')).join('\n')
    const [, rules = '', links = '', routes = ''] = text.split(/^==.*$/m)
    const files = {
      'nft-ip.json': rules,
      'ip-addr.json': links.trim(),
      'ip-route': routes,
      'iptables-save': '',
    }
    const { state, faults } = readCapturedNode(new Map(Object.entries(files)))
    if (faults.length > 0) throw new Error(faults.map(({ message }) => message).join('\n'))
    return state
  }

  /** Sends connections one after the other from a namespace. */
  async send(
    from: string,
    to: { protocol: string; destination: string; port: number },
    options: { source?: string; count: number; timeoutSeconds: number },
  ): Promise<Observed> {
    const { source = '-', count, timeoutSeconds } = options
    const matched = new Set<string>()
    const first = 10_000 + this.#byPort.size
    for (let port = first; port < first + count; port++) this.#byPort.set(port, matched)
    const args = [from, count, first, to.protocol, to.destination, to.port, timeoutSeconds, source]
    const lines = await this.#ask(`${args.join(' ')}\n`)
    for (const line of lines) {
      const [, sent, port] =
        /^trace id (\S+) ip tracer .* packet: .* (?:tcp|udp) sport (\d+) /.exec(line) ?? []
      if (sent !== undefined) this.#byTraceId.set(sent, this.#byPort.get(Number(port)))
      const [, id = '', chain, rule] =
        /^trace id (\S+) ip kube-proxy (\S+) rule (.*) \(verdict .*\)\s*$/.exec(line) ?? []
      this.#byTraceId.get(id)?.add(`${chain} ${rule?.replace(/ comment ".*"$/, '')}`)
    }
    return { answers: lines.filter((line) => !line.startsWith('trace id ')), matched }
  }
}
