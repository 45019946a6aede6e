use POSIX (); use Socket; use strict; $SIG{PIPE} = 'IGNORE';
socket(my $l, PF_INET, SOCK_STREAM, 0) or die $!; setsockopt($l, SOL_SOCKET, SO_REUSEADDR, 1);
bind($l, pack_sockaddr_in(8080, INADDR_ANY)) or die $!; listen($l, 512) or die $!;
exit 0 if fork; POSIX::setsid(); POSIX::close($_) for 0 .. 2;
my %open; my $bits = ''; vec($bits, fileno($l), 1) = 1;
while (1) {
  select(my $ready = $bits, undef, undef, undef);
  if (vec($ready, fileno($l), 1)) { if (accept(my $c, $l)) { $open{fileno($c)} = $c; vec($bits, fileno($c), 1) = 1 } }
  for my $fd (keys %open) {
    next unless vec($ready, $fd, 1);
    my $c = $open{$fd}; my $byte;
    next if sysread($c, $byte, 1) and syswrite($c, $byte, 1);
    vec($bits, $fd, 1) = 0; delete $open{$fd}; close($c);
  }
}
