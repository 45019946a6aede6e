# Runs in a Pod of shop. Waits until a client ($1) has the answer to a request, and sends it a packet of the same connection whose
# acknowledgement is right, and whose sequence number is this many bytes ($2) beyond the next one. Then it tells whether the client answers
# with a reset, here and in the log of this Pod, by a request to its own address.
use strict; use warnings; use IO::Socket::INET; use Socket qw(:DEFAULT IPPROTO_TCP);
my ($client, $distance) = @ARGV;
my $PORT = 80;
my ($RST, $PSH, $ACK) = (0x04, 0x08, 0x10);
my $REQUEST_SECONDS = 3;
my $RESET_SECONDS = 2;
# Sums 16-bit words as the checksum of TCP does (RFC 1071).
sub checksum {
  my ($text) = @_;
  my $sum = 0;
  $sum += $_ for unpack 'n*', $text . "\0" x (length($text) % 2);
  $sum = ($sum >> 16) + ($sum & 0xffff) while $sum >> 16;
  return ~$sum & 0xffff;
}
socket my $raw, PF_INET, SOCK_RAW, IPPROTO_TCP or die "raw socket: $!\n";
# The next packet of the client that the condition takes, within this many seconds; undef if there is none.
sub packet {
  my ($seconds, $is_wanted) = @_;
  local $SIG{ALRM} = sub { die "time\n" };
  return eval {
    alarm $seconds;
    while (defined recv $raw, my $packet, 65_535, 0) {
      my $start = (ord($packet) & 15) * 4;
      my ($source, $own) = unpack 'x12 a4 a4', $packet;
      my ($from, $to, $sequence, $acknowledged, $offset, $flags) = unpack "x$start n n N N C C", $packet;
      my %segment = (source => $source, own => $own, from => $from, sequence => $sequence, acknowledged => $acknowledged,
        flags => $flags, size => length($packet) - $start - ($offset >> 4) * 4);
      next unless inet_ntoa($source) eq $client && $to == $PORT && $is_wanted->(\%segment);
      alarm 0;
      return \%segment;
    }
  };
}
my $request = packet($REQUEST_SECONDS, sub { shift->{size} > 0 });
unless ($request) { print "this Pod has no connection with $client\n"; exit }
# A reset before the answer would leave the client waiting for it: its kernel has nothing to send again.
my $received = packet($RESET_SECONDS, sub { my ($it) = @_; $it->{from} == $request->{from} && $it->{acknowledged} != $request->{acknowledged} });
unless ($received) { print "the request of $client was not answered\n"; exit }
my $number = ($received->{acknowledged} + $distance) & 0xffff_ffff;
my $acknowledgement = ($received->{sequence} + $received->{size}) & 0xffff_ffff;
sub segment {
  my ($sum) = @_;
  return pack 'n n N N C C n n n a*', $PORT, $request->{from}, $number, $acknowledgement, 5 << 4, $ACK | $PSH, 64_240, $sum, 0, 'ahead';
}
my $plain = segment(0);
my $sum = checksum($request->{source} . $request->{own} . pack('x C n', IPPROTO_TCP, length $plain) . $plain);
send $raw, segment($sum), 0, sockaddr_in($request->{from}, $request->{source}) or die "packet: $!\n";
my $reset = packet($RESET_SECONDS, sub { my ($it) = @_; $it->{from} == $request->{from} && $it->{flags} & $RST });
my $outcome = $reset ? 'reset' : 'unanswered';
print 'a packet from ', inet_ntoa($request->{own}), ":$PORT to $client:$request->{from}: $outcome\n";
my $log = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $PORT, Timeout => 5) or die "this Pod's log: $@\n";
print $log "GET /?invalid-$outcome HTTP/1.0\r\n\r\n";
() = <$log>;
