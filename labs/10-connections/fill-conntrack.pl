# Keeps the conntrack table of this node full for six seconds, with established connections between addresses for documentation
# (RFC 5737), and then removes them. They end after a minute by themselves: a full table is never left behind. The entries are written
# to the kernel by netlink (linux/netfilter/nfnetlink_conntrack.h): a started conntrack for each place that becomes free is too slow, and
# a connection takes the place first. No single quotes: it is typed between two.
use strict; use warnings; use Socket qw(:DEFAULT IPPROTO_TCP);
$| = 1;
my $FULL_SECONDS = 6;
my $ENTRY_SECONDS = 60;
my $LARGEST = 262_144;
my ($AF_NETLINK, $NETLINK_NETFILTER) = (16, 12);
my ($NEW, $DELETE) = (0x100, 0x102);
my ($REQUEST_ACK, $CREATE) = (0x05, 0x400);
my $NESTED = 0x8000;
my $added = 0;
# IPS_SEEN_REPLY, IPS_ASSURED, and IPS_CONFIRMED, without which the kernel refuses the entry (EBUSY).
my ($STATUS, $ESTABLISHED) = (0x02 | 0x04 | 0x08, 3);
my ($EEXIST, $ENOMEM) = (17, 12);
my ($SOURCE, $DESTINATION, $PORTS) = ("198.51.100.", "203.0.113.1", 60_000);
sub attribute {
  my ($type, $value) = @_;
  my $size = 4 + length $value;
  return pack("S S", $size, $type) . $value . "\0" x (-$size % 4);
}
sub tuple {
  my ($type, $source, $from, $destination, $to) = @_;
  my $addresses = attribute(1 | $NESTED, attribute(1, $source) . attribute(2, $destination));
  my $ports = attribute(2 | $NESTED, attribute(1, pack "C", IPPROTO_TCP) . attribute(2, pack "n", $from) . attribute(3, pack "n", $to));
  return attribute($type | $NESTED, $addresses . $ports);
}
socket my $kernel, $AF_NETLINK, SOCK_RAW, $NETLINK_NETFILTER or die "netlink: $!\n";
# Adds or deletes the entry with this number. Returns the error of the kernel as a number, or 0.
sub change {
  my ($type, $number) = @_;
  my @source = (inet_aton($SOURCE . (1 + int($number / $PORTS))), 1024 + $number % $PORTS);
  my @destination = (inet_aton($DESTINATION), 80);
  my $text = pack("C C n", AF_INET, 0, 0) . tuple(1, @source, @destination);
  $text .= tuple(2, @destination, @source) . attribute(3, pack "N", $STATUS) . attribute(7, pack "N", $ENTRY_SECONDS)
    . attribute(4 | $NESTED, attribute(1 | $NESTED, attribute(1, pack "C", $ESTABLISHED))) if $type == $NEW;
  send $kernel, pack("L S S L L", 16 + length $text, $type, $REQUEST_ACK | ($type == $NEW ? $CREATE : 0), 0, 0) . $text, 0 or die "netlink: $!\n";
  defined recv $kernel, my $answer, 65_535, 0 or die "netlink: $!\n";
  return -unpack "x16 l", $answer;
}
sub value { open my $file, "<", "/proc/sys/net/netfilter/nf_conntrack_$_[0]" or die "nf_conntrack_$_[0]: $!\n"; return 0 + <$file> }
sub drops { my $sum = 0; $sum += $_ for `conntrack -S` =~ /\bdrop=(\d+)/g; return $sum }
my $max = value("max");
if ($max > $LARGEST) { print "The table of this node has room for $max entries, and a lab fills no table of more than $LARGEST\n"; exit }
# Fills what is free. The last entries find no room if others came meanwhile.
sub fill {
  my $free = $max - value("count");
  for (1 .. $free) {
    my $error = change($NEW, $added);
    last if $error == $ENOMEM;
    $! = $error, die "entry $added: $!\n" if $error && $error != $EEXIST;
    $added++;
  }
  return $free;
}
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP PIPE);
END { if ($kernel) { change($DELETE, $_) for 0 .. $added - 1 } }
# Entries of connections that are over, and of UDP flows, would end meanwhile and make room: on a busy machine a new connection took it.
`conntrack -D -p tcp --state $_ 2>&1` for qw(TIME_WAIT CLOSE LAST_ACK FIN_WAIT CLOSE_WAIT);
`conntrack -D -p udp 2>&1`;
my $before = drops();
fill();
print value("count"), " of $max entries\n";
my ($end, $freed) = (time + $FULL_SECONDS, 0);
# Each other entry that ends meanwhile would make room for a new connection.
while (time < $end) {
  $freed += fill();
  select undef, undef, undef, 0.005;
}
print drops() - $before, " packets got no entry and were dropped; $freed places became free meanwhile and were taken\n";
