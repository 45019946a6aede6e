# Relays the connections of kube-proxy's userspace mode (userspace-proxier.ts). It reads its listeners line by line, with `end` after the last
# one, and prints `ready`. The main process selects the endpoint, so that all clients share one round robin; a child copies the bytes.
use strict; use warnings; use IO::Select; use IO::Socket::INET;
$| = 1;
$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my @dial = (0.25, 0.5, 1, 2);
my $idle = 1;
my (%port, %owner, %flow, %affine);
my $all = IO::Select->new(\*STDIN);

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
    print "failed $port->{service} $endpoint\n";
    delete $affine{"$port->{service} $client"};
  }
  print "none $port->{service}\n";
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
    ("$protocol $listens" => { service => $service, affinity => $affinity, endpoints => \@endpoints, protocol => $protocol, listens => $listens }) } @_;
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
      ReuseAddr => 1, $tcp ? (Listen => 128) : ()) or do { print "busy $key $!\n"; delete $port{$key}; next };
    $owner{$port->{socket}} = $tcp ? sub { accept_one($port) } : sub { datagram($port) };
    $all->add($port->{socket});
  }
  print "ready\n";
}

my ($text, @lines) = ('');
while (1) {
  for my $one ($all->can_read($idle)) {
    if ($one == \*STDIN) {
      sysread(STDIN, $text, 65536, length $text) or exit 0;
      while ($text =~ s/^(.*)\n//) {
        if ($1 eq 'end') { configure(@lines); @lines = () } else { push @lines, $1 }
      }
    } else { my $work = $owner{$one}; $work->() if $work }
  }
  forget($_) for grep { $flow{$_}{at} < time - $idle } keys %flow;
}
