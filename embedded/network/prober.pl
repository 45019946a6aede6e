$SIG{PIPE} = "IGNORE"; $| = 1;
my ($now, $input, %open) = (0, "");
sub begin {
  my ($id, $host, $port, $seconds, $payload) = @_;
  my %probe = (payload => pack("H*", $payload), due => $now + $seconds, answer => "");
  socket($probe{socket}, 2, 2049, 6) && (connect($probe{socket}, pack "S n C4 x8", 2, $port, split /\./, $host) || $! == 115)
    or return print "$id refused\n";
  $open{$id} = \%probe;
}
sub ready {
  my ($probe) = @_;
  if (!$probe->{asked}) {
    return "refused" if unpack "i", getsockopt($probe->{socket}, 1, 4);
    return "open" if $probe->{payload} eq "";
    $probe->{asked} = syswrite($probe->{socket}, $probe->{payload}) or return "silent";
    return;
  }
  my $got = sysread $probe->{socket}, $probe->{answer}, 4096, length $probe->{answer};
  return "line $1" if $probe->{answer} =~ /^(.*)\n/;
  return $got && length $probe->{answer} < 65536 ? undef : "silent";
}
while (1) {
  my ($read, $write, $wait) = ("", "");
  vec($read, 0, 1) = 1;
  for my $probe (values %open) {
    vec(($probe->{asked} ? $read : $write), fileno $probe->{socket}, 1) = 1;
    my $left = $probe->{due} > $now ? $probe->{due} - $now : 0;
    $wait = $left if !defined $wait || $left < $wait;
  }
  my ($found, $left) = select $read, $write, undef, $wait;
  $now += $found ? $wait - $left : $wait if defined $wait;
  for my $id (keys %open) {
    my $probe = $open{$id};
    my $fd = fileno $probe->{socket};
    my $result = vec($read, $fd, 1) || vec($write, $fd, 1) ? ready($probe) : $probe->{due} <= $now ? "silent" : undef;
    next if !defined $result;
    print "$id $result\n";
    delete $open{$id};
  }
  next if !vec $read, 0, 1;
  sysread STDIN, $input, 65536, length $input or exit;
  begin(split /\t/, $1, 5) while $input =~ s/^(.*)\n//;
}
