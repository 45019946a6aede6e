import { createInterface } from 'node:readline'
import { proxierOf } from '../../dataplane/kube-proxy/proxier.ts'
import { userspaceListeners } from '../../dataplane/kube-proxy/userspace/ruleset.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { GuestProcess } from '../machine/machine.ts'
import { type GuestNode, restoreCommand, type StepsResult, type Sysctl } from './guest-node.ts'
import { fullInput } from './iptables-proxier.ts'
import { Proxier } from './proxier.ts'

/**
 * kube-proxy's userspace mode (pkg/proxy/userspace of 1.20): rules redirect each Service port to a separate listener,
 * which connects to the endpoints in turn and tries the next one if an endpoint does not answer.
 */
export class UserspaceProxier extends Proxier {
  readonly maxIntervalMs = this.context.settings.syncPeriodMs
  protected readonly mode = 'userspace'
  protected readonly failure = ['proxier.go:651', 'Failed to sync iptables rules'] as const
  private readonly relay = new UserspaceRelay(this.context.guest, (line) => this.report(line))

  async prepare(): Promise<Sysctl[]> {
    this.context.log('I', 'server_others.go:221', 'Using userspace Proxier.')
    return []
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('iptables', 'links')
  }

  protected async write(wanted: NodeState, held: NodeState): Promise<StepsResult> {
    // The ports are opened first, because connections to a closed port would be refused.
    await this.relay.serve(this.ports())
    return this.context.guest.apply([{ command: restoreCommand, input: fullInput(wanted.iptables, held.iptables) }])
  }

  override stop(): Promise<void> {
    return this.relay.stop()
  }

  private ports(): RelayedPort[] {
    const { objects, node, version, settings } = this.context
    const proxier = proxierOf(objects(), node, 'ipv4', featuresOf(version), settings.config, [...this.addresses])
    return userspaceListeners(proxier).flatMap(({ port, proxyPort }) => {
      const { protocol, name, affinity = 0, endpoints } = port
      if (protocol === 'sctp') return []
      const ready = endpoints.filter((endpoint) => endpoint.ready).map(({ text }) => text)
      return [{ protocol, listens: proxyPort, service: name, affinity, endpoints: ready }]
    })
  }

  /** Logs the messages of pkg/proxy/userspace/proxysocket.go. */
  private report(line: string): void {
    const { log } = this.context
    const [what, service, endpoint] = line.split(' ')
    if (what === 'failed') log('E', 'proxysocket.go:111', 'Dial failed', { service, endpoint })
    else if (what === 'none') log('E', 'proxysocket.go:118', 'Failed to connect to balancer', { service })
    else log('E', 'proxier.go:439', line)
  }
}

/** One listener of the relay and its endpoints. */
interface RelayedPort {
  protocol: 'tcp' | 'udp'
  listens: number
  /** `namespace/name:port` */
  service: string
  /** Seconds of ClientIP affinity; 0 for none. */
  affinity: number
  /** `ip:port` */
  endpoints: readonly string[]
}

// The relay reads its listeners line by line, with `end` after the last one, and prints `ready`. The main process selects
// the endpoint, so that all clients share one round robin; a child copies the bytes.
const relay = `use strict; use warnings; use IO::Select; use IO::Socket::INET;
$| = 1;
$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my @dial = (0.25, 0.5, 1, 2);
my $idle = 1;
my (%port, %owner, %flow, %affine);
my $all = IO::Select->new(\\*STDIN);

sub pick {
  my ($port, $client) = @_;
  my @endpoints = @{$port->{endpoints}} or return;
  my $known = $port->{affinity} && $affine{"$port->{service} $client"};
  return $known->[0] if $known && $known->[1] > time && grep { $_ eq $known->[0] } @endpoints;
  my $endpoint = $endpoints[$port->{turn}++ % @endpoints];
  $affine{"$port->{service} $client"} = [$endpoint, time + $port->{affinity}] if $port->{affinity};
  return $endpoint;
}

sub dial {
  my ($port, $client) = @_;
  for my $patience (@dial) {
    my $endpoint = pick($port, $client) or last;
    my $backend = IO::Socket::INET->new(PeerAddr => $endpoint, Proto => 'tcp', Timeout => $patience);
    return $backend if $backend;
    print "failed $port->{service} $endpoint\\n";
    delete $affine{"$port->{service} $client"};
  }
  print "none $port->{service}\\n";
  return;
}

sub copy {
  my ($one, $other) = @_;
  my %peer = ($one => $other, $other => $one);
  my $open = IO::Select->new($one, $other);
  while ($open->count) {
    for my $from ($open->can_read) {
      my $count = sysread($from, my $bytes, 65536);
      if ($count) {
        for (my $at = 0; $at < $count;) {
          my $done = syswrite($peer{$from}, $bytes, $count - $at, $at);
          return unless $done;
          $at += $done;
        }
      } else {
        $open->remove($from);
        shutdown($peer{$from}, 1);
      }
    }
  }
}

sub accept_one {
  my ($port) = @_;
  my $client = $port->{socket}->accept or return;
  my $backend = dial($port, $client->peerhost) or return;
  my $child = fork;
  return if !defined $child || $child;
  copy($client, $backend);
  exit 0;
}

sub datagram {
  my ($port) = @_;
  my $from = $port->{socket}->recv(my $bytes, 65535) // return;
  my ($peer, $address) = sockaddr_in($from);
  my $key = "$port->{listens} $from";
  if (!$flow{$key}) {
    my $endpoint = pick($port, inet_ntoa($address)) or return;
    my $socket = IO::Socket::INET->new(PeerAddr => $endpoint, Proto => 'udp') or return;
    $flow{$key} = { socket => $socket, port => $port, client => $from };
    $owner{$socket} = sub {
      if (defined $socket->recv(my $answer, 65535)) { $port->{socket}->send($answer, 0, $from); $flow{$key}{at} = time }
      else { forget($key) }
    };
    $all->add($socket);
  }
  $flow{$key}{at} = time;
  $flow{$key}{socket}->send($bytes);
}

sub forget {
  my $gone = delete $flow{$_[0]} or return;
  $all->remove($gone->{socket});
  delete $owner{$gone->{socket}};
  close $gone->{socket};
}

sub configure {
  my %wanted = map { my ($protocol, $listens, $service, $affinity, @endpoints) = split ' ';
    ("$protocol $listens" => { service => $service, affinity => $affinity, endpoints => \\@endpoints, protocol => $protocol, listens => $listens }) } @_;
  for my $key (grep { !$wanted{$_} } keys %port) {
    my $gone = delete $port{$key};
    $all->remove($gone->{socket});
    delete $owner{$gone->{socket}};
    close $gone->{socket};
  }
  for my $key (sort keys %wanted) {
    my $new = $wanted{$key};
    my $port = $port{$key} //= { turn => 0 };
    $port->{turn} = 0 if ($port->{service} // '') ne $new->{service};
    @{$port}{keys %$new} = values %$new;
    next if $port->{socket};
    my $tcp = $port->{protocol} eq 'tcp';
    $port->{socket} = IO::Socket::INET->new(LocalAddr => '0.0.0.0', LocalPort => $port->{listens}, Proto => $port->{protocol},
      ReuseAddr => 1, $tcp ? (Listen => 128) : ()) or do { print "busy $key $!\\n"; delete $port{$key}; next };
    $owner{$port->{socket}} = $tcp ? sub { accept_one($port) } : sub { datagram($port) };
    $all->add($port->{socket});
  }
  print "ready\\n";
}

my ($text, @lines) = ('');
while (1) {
  for my $one ($all->can_read($idle)) {
    if ($one == \\*STDIN) {
      sysread(STDIN, $text, 65536, length $text) or exit 0;
      while ($text =~ s/^(.*)\\n//) {
        if ($1 eq 'end') { configure(@lines); @lines = () } else { push @lines, $1 }
      }
    } else { my $work = $owner{$one}; $work->() if $work }
  }
  forget($_) for grep { $flow{$_}{at} < time - $idle } keys %flow;
}
`

/** The process that relays connections for a kube-proxy in userspace mode; it ends with kube-proxy. */
class UserspaceRelay {
  private readonly guest: GuestNode
  private readonly report: (line: string) => void
  private process: GuestProcess | undefined
  private waiting: { ready(): void; gone(error: Error): void } | undefined
  private written = ''

  /** `report` is called for endpoints that did not answer and for ports that are in use. */
  constructor(guest: GuestNode, report: (line: string) => void) {
    this.guest = guest
    this.report = report
  }

  /** Listens on exactly these ports; resolves when they are open. Rejects if the process has ended. */
  async serve(ports: readonly RelayedPort[]): Promise<void> {
    const lines = ports.map(({ protocol, listens, service, affinity, endpoints }) =>
      [protocol, listens, service, affinity, ...endpoints].join(' '),
    )
    const text = `${[...lines, 'end'].join('\n')}\n`
    if (text === this.written) return
    this.process ??= await this.start()
    const { process } = this
    const ready = new Promise<void>((resolve, reject) => {
      this.waiting = { ready: resolve, gone: reject }
    })
    process.stdin.write(text)
    await ready
    this.written = text
  }

  private async start(): Promise<GuestProcess> {
    const process = await this.guest.spawn(['perl', '-e', relay])
    createInterface({ input: process.stdout }).on('line', (line) => {
      if (line === 'ready') this.waiting?.ready()
      else this.report(line)
    })
    process.stderr.on('data', (bytes: Buffer) => this.report(bytes.toString().trim()))
    const gone = () => {
      this.process = undefined
      this.written = ''
      this.waiting?.gone(new Error('the process that relays connections has ended'))
    }
    process.exited.then(gone, gone)
    return process
  }

  /** Ends the relay and its connections. */
  async stop(): Promise<void> {
    const { process } = this
    process?.kill('SIGKILL')
    await process?.exited
  }
}
