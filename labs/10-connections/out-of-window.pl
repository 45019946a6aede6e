# Runs in a Pod of shop. Waits for a request of a client ($1), and sends it a packet of the same connection whose acknowledgement is
# right, and whose sequence number is this many bytes ($2) beyond the next one.
use strict; use warnings; use Socket qw(:DEFAULT IPPROTO_TCP);
my ($client, $distance) = @ARGV;
my $PORT = 80;
my ($ACK, $PSH) = (0x10, 0x08);
# Sums 16-bit words as the checksum of TCP does (RFC 1071).
sub checksum {
  my ($text) = @_;
  my $sum = 0;
  $sum += $_ for unpack 'n*', $text . "\0" x (length($text) % 2);
  $sum = ($sum >> 16) + ($sum & 0xffff) while $sum >> 16;
  return ~$sum & 0xffff;
}
$SIG{ALRM} = sub { print "this Pod has no connection with $client\n"; exit };
alarm 3;
socket my $raw, PF_INET, SOCK_RAW, IPPROTO_TCP or die "raw socket: $!\n";
while (defined recv $raw, my $packet, 65_535, 0) {
  my $start = (ord($packet) & 15) * 4;
  my ($source, $own) = unpack 'x12 a4 a4', $packet;
  my ($from, $to, $sequence, $acknowledged, $offset) = unpack "x$start n n N N C", $packet;
  my $size = length($packet) - $start - ($offset >> 4) * 4;
  next unless inet_ntoa($source) eq $client && $to == $PORT && $size > 0;
  my $number = ($acknowledged + $distance) & 0xffff_ffff;
  my $segment = sub {
    my ($sum) = @_;
    my @head = ($PORT, $from, $number, ($sequence + $size) & 0xffff_ffff, 5 << 4, $ACK | $PSH, 64_240, $sum, 0);
    return pack 'n n N N C C n n n a*', @head, 'stray';
  };
  my $plain = $segment->(0);
  my $sum = checksum($source . $own . pack('x C n', IPPROTO_TCP, length $plain) . $plain);
  send $raw, $segment->($sum), 0, sockaddr_in($from, $source) or die "packet: $!\n";
  print 'a packet from ', inet_ntoa($own), ":$PORT to $client:$from\n";
  exit;
}
