# Prints the first packets of new TCP connections on every interface of a node, as the kernel passes them on, a line each:
#   INTERFACE in|out BYTES IN HEX
# Arguments: seconds in all, seconds without a further packet after the first one, most packets.
# Only built-in functions: no module is loaded. Reads copies of packets, changes none, and ends by itself.
$| = 1;
my ($all, $idle, $most) = @ARGV;
# AF_PACKET, SOCK_RAW, ETH_P_ALL in network order (packet(7)).
socket(my $socket, 17, 3, unpack("S", pack("n", 3))) or die "no packet socket: $!\n";
my ($seen, %names) = (0);

# The name of an interface by its index: ioctl SIOCGIFNAME on a struct ifreq (netdevice(7)).
sub name_of {
  my $index = shift;
  return $names{$index} if defined $names{$index};
  my $request = pack("x16 i x20", $index);
  $names{$index} = ioctl($socket, 0x8910, $request) ? unpack("Z16", $request) : "?";
}

my ($left, $quiet) = ($all, $idle);
while ($left > 0 && $quiet > 0 && $seen < $most) {
  my $ready = "";
  vec($ready, fileno($socket), 1) = 1;
  my ($count, $rest) = select($ready, undef, undef, 0.05);
  if ($count <= 0) {
    $left -= 0.05;
    $quiet -= 0.05 if $seen > 0;
    next;
  }
  # struct sockaddr_ll: family, protocol, index, hardware type, packet type (4 is outgoing; 3 is for another machine, which a
  # bridge floods).
  my $from = recv($socket, my $bytes, 256, 0) // next;
  my (undef, $protocol, $index, undef, $type) = unpack("S n i S C", $from);
  next if $type == 3;
  # IPv4 and TCP, the flag SYN without ACK.
  next unless $protocol == 0x0800 && length($bytes) >= 54;
  my $header = (ord(substr($bytes, 14, 1)) & 15) * 4;
  next unless ord(substr($bytes, 23, 1)) == 6 && length($bytes) >= 14 + $header + 20;
  next unless (ord(substr($bytes, 14 + $header + 13, 1)) & 0x12) == 2;
  printf "%s %s %s\n", name_of($index), $type == 4 ? "out" : "in", unpack("H*", $bytes);
  $seen++;
  $quiet = $idle;
}
