/**
 * The two ends of a measured request, in the Perl that every Debian has: a process in the guest costs 20 ms to start, so one
 * process sends all requests, and it blocks, so that no event loop is in the figures. Time::HiRes is not part of perl-base;
 * clock_gettime is the system call 228 of x86-64.
 */
const clock = `
sub now { my $t = pack('qq', 0, 0); syscall(228, 1, $t); my ($s, $n) = unpack('qq', $t); return $s * 1e9 + $n }
`

/** Answers every byte with itself, on port 8080, many connections at once. */
export const echoServer = `
use Socket; use strict; $SIG{PIPE} = 'IGNORE';
socket(my $l, PF_INET, SOCK_STREAM, 0) or die $!; setsockopt($l, SOL_SOCKET, SO_REUSEADDR, 1);
bind($l, pack_sockaddr_in(8080, INADDR_ANY)) or die $!; listen($l, 512) or die $!;
$| = 1; print "listening\\n";
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
`

/**
 * Arguments: address, port, blocks, requests a block. Prints a line a block: the medians, in nanoseconds, of a request on a new
 * connection, of one on a connection that was open, and of a fixed piece of work that uses no network.
 */
export const requestTimes = `
use Socket; use strict; ${clock}
my ($address, $port, $blocks, $each) = @ARGV;
my $to = pack_sockaddr_in($port, inet_aton($address));
sub open_one {
  socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
  setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)); setsockopt($s, 6, 1, 1);
  connect($s, $to) or die "connect to $address:$port: $!"; return $s
}
sub ask { my ($s) = @_; syswrite($s, 'x', 1) == 1 or die "write: $!"; sysread($s, my $b, 1) == 1 or die "no answer" }
sub median { my @v = sort { $a <=> $b } @_; return $v[@v / 2] }
alarm 300; my $kept = open_one(); ask($kept);
for (1 .. $blocks) {
  my (@new, @old, @work);
  for (1 .. $each) {
    my $a = now(); my $s = open_one(); ask($s); my $b = now(); close($s);
    my $c = now(); ask($kept); my $d = now(); push @new, $b - $a; push @old, $d - $c;
    if ($_ % 4 == 0) { $c = now(); my $x = 0; $x += $_ for 1 .. 1000; push @work, now() - $c }
  }
  printf "%d %d %d\\n", median(@new), median(@old), median(@work);
}
`

/**
 * Arguments: address, port, connections a second, seconds, rounds. Prints a line a round: the part of the CPU, in thousandths,
 * that the whole kernel was busy while it opened new connections at that rate.
 */
export const busyAtRate = `
use Socket; use strict; ${clock}
my ($address, $port, $rate, $seconds, $rounds) = @ARGV;
my $to = pack_sockaddr_in($port, inet_aton($address));
sub idle { open(my $f, '<', '/proc/uptime'); my (undef, $i) = split ' ', <$f>; return $i * 1e9 }
alarm 300;
for (1 .. $rounds) {
  my $begin = now(); my $idle = idle(); my $sent = 0;
  while ($sent < $rate * $seconds) {
    my $wait = $begin + $sent * 1e9 / $rate - now();
    select(undef, undef, undef, $wait / 1e9) if $wait > 0;
    socket(my $s, PF_INET, SOCK_STREAM, 0) or die $!; setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
    connect($s, $to) or die "connect to $address:$port: $!"; syswrite($s, 'x', 1); sysread($s, my $b, 1); close($s); $sent++;
  }
  my $took = now() - $begin;
  printf "%d %d\\n", 1000 * (1 - (idle() - $idle) / $took), $sent * 1e9 / $took;
}
`
