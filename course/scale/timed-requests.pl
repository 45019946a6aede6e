use Socket; use POSIX (); use strict;
my ($gettime, $yield) = (POSIX::uname())[4] eq 'aarch64' ? (113, 124) : (228, 24);
sub now { my $t = pack('qq', 0, 0); syscall($gettime, 1, $t); my ($s, $n) = unpack('qq', $t); return $s * 1e9 + $n }
sub median { my @v = sort { $a <=> $b } @_; return $v[@v / 2] }
sub work_once { my $c = now(); my $x = 0; $x += $_ for 1 .. 1000; return now() - $c }
sub open_one {
  my ($to) = @_;
  socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
  setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)); setsockopt($s, 6, 1, 1);
  connect($s, $to) or die "connect: $!"; return $s
}
sub ask { my ($s) = @_; syswrite($s, 'x', 1) == 1 or die "write: $!"; sysread($s, my $b, 1) == 1 or die "no answer" }
# Connections per second, 0 for requests one after the other; blocks; rounds per block; two addresses.
my ($rate, $blocks, $rounds, @addresses) = @ARGV;
my @to = map { pack_sockaddr_in(80, inet_aton($_)) } @addresses;
alarm 600;
# A request on a new connection, and one on a connection that is kept.
my @kept = $rate ? () : map { my $s = open_one($_); ask($s); $s } @to;
sub requests {
  my ($i) = @_;
  my $a = now(); my $s = open_one($to[$i]); ask($s); my $b = now(); close($s);
  my $c = now(); ask($kept[$i]); return ($b - $a, now() - $c);
}
# A connection at irregular intervals, so that periodic load affects both addresses.
my $due = now();
sub connection_at_rate {
  my ($i) = @_;
  $due += (0.5 + rand()) * 1e9 / $rate;
  my $wait = $due - now();
  if ($wait > 0) { select(undef, undef, undef, $wait / 1e9) } else { $due = now() }
  my $a = now(); close(open_one($to[$i])); syscall($yield); return now() - $a;
}
setpriority(0, 0, 19) if $rate;
sub turn { return $rate ? connection_at_rate(@_) : requests(@_) }
for (1 .. $blocks) {
  my (@took, @work);
  for my $round (0 .. $rounds - 1) {
    my $order = int(rand(2));
    for my $i ($order, 1 - $order) { my @ns = turn($i); $took[$_][$i][$round] = $ns[$_] for 0 .. $#ns }
    push @work, work_once() if $round % 4 == 0;
  }
  my @line = map { my ($first, $last) = @$_; median(@$last), median(map { $last->[$_] - $first->[$_] } 0 .. $#$last) } @took;
  print join(' ', @line, median(@work)), "\n";
}
