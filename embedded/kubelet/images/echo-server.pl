use strict; use warnings; use IO::Select; use IO::Socket::INET;
$| = 1;
$SIG{TERM} = $SIG{INT} = sub { exit 0 };
$SIG{PIPE} = 'IGNORE';
my $port = $ENV{PORT} || 8080;
my $name = $ENV{HOSTNAME};
my %common = (LocalAddr => '0.0.0.0', LocalPort => $port);
my $tcp = IO::Socket::INET->new(%common, Proto => 'tcp', Listen => 128, ReuseAddr => 1) or die "port $port/TCP: $!\n";
my $udp = IO::Socket::INET->new(%common, Proto => 'udp') or die "port $port/UDP: $!\n";
my $all = IO::Select->new($tcp, $udp);
print "listening on port $port, TCP and UDP\n";
while (1) {
  for my $one ($all->can_read) {
    if ($one == $tcp) {
      my $new = $tcp->accept or next;
      $all->add($new);
    } elsif ($one == $udp) {
      my $from = $udp->recv(my $bytes, 65535) or next;
      my ($peer, $address) = sockaddr_in($from);
      my $client = inet_ntoa($address) . ":$peer";
      print "UDP $client " . length($bytes) . " bytes\n";
      $udp->send("Pod: $name\nClient: $client\n$bytes", 0, $from);
    } else {
      my $client = $one->peerhost ? $one->peerhost . ':' . $one->peerport : '';
      my $count = sysread($one, my $bytes, 65536);
      if (!$count) { $all->remove($one); close $one; next }
      print "TCP $client $count bytes\n";
      syswrite($one, "Pod: $name\nClient: $client\n$bytes");
    }
  }
}
