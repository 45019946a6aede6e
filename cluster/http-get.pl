my ($address, $port, $path, $seconds) = @ARGV;
my $socket;
$SIG{ALRM} = sub { print STDERR "no answer: none within $seconds s\n"; exit 28 };
alarm $seconds;
socket($socket, 2, 1, 6) && setsockopt($socket, 1, 13, pack "ii", 1, 0) && connect($socket, pack("S n C4 x8", 2, $port, split /\./, $address))
  or do { print STDERR "no answer: $!\n"; exit 7 };
syswrite $socket, "GET $path HTTP/1.0\r\nHost: $address\r\n\r\n";
my $answer = "";
1 while sysread $socket, $answer, 65536, length $answer;
my ($status) = $answer =~ m{^HTTP/\S+ (\d+)} or do { print STDERR "the answer was not HTTP\n"; exit 1 };
print $answer =~ s/^.*?\r\n\r\n//sr;
if ($status >= 400) { print STDERR "the answer was $status\n"; exit 22 }
