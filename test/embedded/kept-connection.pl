# Opens a connection to ADDRESS PORT, sends a request, waits until the file GO exists, and sends another one over the same
# connection. Prints "first" and "second" for the answers, and "gone" if the second one does not come within 3 s.
use strict; use warnings; use IO::Socket::INET;
my ($address, $port, $go) = @ARGV;
$| = 1;
my $socket = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Timeout => 5) or die "$!\n";
my $ask = sub {
  local $SIG{ALRM} = sub { die "no answer\n" };
  alarm 3;
  print $socket "GET / HTTP/1.1\r\nHost: kept\r\n\r\n";
  sysread $socket, my $answer, 65536 or die "closed\n";
  alarm 0;
};
$ask->();
print "first\n";
select undef, undef, undef, 0.05 until -e $go;
print eval { $ask->(); 1 } ? "second\n" : "gone\n";
