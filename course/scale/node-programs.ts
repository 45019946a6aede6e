/**
 * Client and server of a measured request, in Perl, which every Debian has. Starting a process in the guest takes 20 ms, so one
 * process sends all requests; it blocks, so that no event loop affects the figures. Time::HiRes is not part of perl-base;
 * clock_gettime is the system call 228 of x86-64 and 113 of arm64, sched_yield 24 and 124.
 */
const clock = `
use POSIX (); my ($gettime, $yield) = (POSIX::uname())[4] eq 'aarch64' ? (113, 124) : (228, 24);
sub now { my $t = pack('qq', 0, 0); syscall($gettime, 1, $t); my ($s, $n) = unpack('qq', $t); return $s * 1e9 + $n }
`

/** Starts an echo server on port 8080 for concurrent connections in the background, and ends when it listens. */
export const echoServer = `
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
`

/** A fixed piece of work without network: its duration shows the current speed of the machine. Median, in nanoseconds. */
const work = `
sub median { my @v = sort { $a <=> $b } @_; return $v[@v / 2] }
sub work_once { my $c = now(); my $x = 0; $x += $_ for 1 .. 1000; return now() - $c }
`

/** Opens a connection and sends a request on it. A reset closes it, so that no port stays in TIME_WAIT for two minutes. */
const requests = `
sub open_one {
  my ($to) = @_;
  socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
  setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)); setsockopt($s, 6, 1, 1);
  connect($s, $to) or die "connect: $!"; return $s
}
sub ask { my ($s) = @_; syswrite($s, 'x', 1) == 1 or die "write: $!"; sysread($s, my $b, 1) == 1 or die "no answer" }
`

/**
 * Arguments: blocks, rounds per block, port, first address, last address. Each round sends a request to both addresses on a new and
 * on an open connection, in random order, so that other load on the machine affects both. Prints one line per block with medians in
 * nanoseconds: a new connection to the last address, the difference to the first in the same round, the same two values on open
 * connections, and a fixed piece of work without network.
 */
export const requestTimes = `
use Socket; use strict; ${clock} ${work} ${requests}
my ($blocks, $each, $port, @addresses) = @ARGV;
my @to = map { pack_sockaddr_in($port, inet_aton($_)) } @addresses;
alarm 600; my @kept = map { my $s = open_one($_); ask($s); $s } @to;
for (1 .. $blocks) {
  my (@new, @old, @work);
  for my $round (0 .. $each - 1) {
    my $order = int(rand(2));
    for my $turn (0, 1) {
      my $i = ($order + $turn) % 2;
      my $a = now(); my $s = open_one($to[$i]); ask($s); my $b = now(); close($s);
      my $c = now(); ask($kept[$i]); my $d = now(); $new[$i][$round] = $b - $a; $old[$i][$round] = $d - $c;
    }
    push @work, work_once() if $round % 4 == 0;
  }
  my @line = map { my ($first, $last) = @$_; median(@$last), median(map { $last->[$_] - $first->[$_] } 0 .. $#$last) } (\\@new, \\@old);
  print join(' ', @line, median(@work)), "\\n";
}
`

/**
 * Arguments: blocks, rounds per block, connections per second, port, first address, last address. Each round opens a new connection
 * to both addresses, in random order and at irregular intervals, so that periodic load affects both. The node has one processor and
 * is idle in between, so the time for a connection is the time until the client, which has the lowest priority, runs again. Prints
 * one line per block with medians in nanoseconds: the time for a connection to the last address, the difference to the first in the
 * same round, and a fixed piece of work.
 */
export const connectAtRate = `
use Socket; use strict; ${clock} ${work} ${requests}
my ($blocks, $each, $rate, $port, @addresses) = @ARGV;
my @to = map { pack_sockaddr_in($port, inet_aton($_)) } @addresses;
alarm 600; setpriority(0, 0, 19);
my $due = now();
for (1 .. $blocks) {
  my (@busy, @work);
  for my $round (0 .. $each - 1) {
    my $order = int(rand(2));
    for my $turn (0, 1) {
      my $i = ($order + $turn) % 2;
      $due += (0.5 + rand()) * 1e9 / $rate;
      my $wait = $due - now();
      if ($wait > 0) { select(undef, undef, undef, $wait / 1e9) } else { $due = now() }
      my $a = now(); close(open_one($to[$i])); syscall($yield); $busy[$i][$round] = now() - $a;
    }
    push @work, work_once() if $round % 4 == 0;
  }
  my ($first, $last) = @busy;
  print join(' ', median(@$last), median(map { $last->[$_] - $first->[$_] } 0 .. $#$last), median(@work)), "\\n";
}
`
