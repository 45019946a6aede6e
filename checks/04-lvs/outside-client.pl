use strict; use Socket;
$| = 1;
alarm 15;
my %held;
sub talk {
  my ($to, $port, $source) = @_;
  socket(my $socket, PF_INET, SOCK_STREAM, 6) or return;
  setsockopt($socket, SOL_SOCKET, $_, pack('l!l!', 1, 500000)) for SO_SNDTIMEO, SO_RCVTIMEO;
  setsockopt($socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
  if ($source) { bind($socket, sockaddr_in(0, inet_aton($source))) or return }
  connect($socket, sockaddr_in($port, inet_aton($to))) or return;
  syswrite($socket, "GET / HTTP/1.1\r\nHost: lab\r\n\r\n") or return;
  my $text = '';
  while ($text !~ /\r\n\r\n(\S+)\n/) { sysread($socket, $text, 4096, length $text) or return }
  $text =~ /\r\n\r\n(\S+)\n/;
  return ($1, $socket);
}
while (<DATA>) {
  my ($act, @words) = split;
  if ($act eq 'release') {
    for (keys %held) { delete $held{$_} if !@words || $held{$_}[0] eq $words[0] }
    next;
  }
  my ($name, $socket) = talk(@words);
  print '#answer ', $name // 'nothing', "\n";
  exit unless defined $name;
  $held{fileno $socket} = [$name =~ /^(.*):/, $socket] if $act eq 'hold';
}
__DATA__
