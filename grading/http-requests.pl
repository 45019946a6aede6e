$SIG{PIPE} = "IGNORE"; $| = 1;
my ($now, $count) = (0, 0);
my $ordered = @ARGV && $ARGV[0] eq "in-order" && shift @ARGV;
my @jobs = map { my %job = (index => $count++, sent => 0); @job{qw(address port path times source seconds keep insist hold)} = split / /; \%job } @ARGV;
# In order: one begins when the one before it was answered; the sockets that are held, with the names that answered.
my @waiting = $ordered ? splice @jobs : ();
my @held;
sub begin {
  my ($job) = @_;
  $job->{due} = $now + $job->{seconds};
  @$job{qw(answer connects asked)} = ("", 0, 0);
  $job->{sent}++;
  return if $job->{keep} && $job->{socket};
  $job->{connects} = 1;
  $job->{own} = 0;
  socket($job->{socket} = undef, 2, 2049, 6) or return finish($job, 7, "$!");
  setsockopt($job->{socket}, 1, 13, pack "ii", 1, 0);
  my $address = sub { pack "S n C4 x8", 2, $_[1], split /\./, $_[0] };
  !$job->{source} || bind($job->{socket}, $address->($job->{source}, 0)) or return finish($job, 7, "$!");
  connect($job->{socket}, $address->(@$job{qw(address port)})) || $! == 115 or finish($job, 7, "$!");
}
sub finish {
  my ($job, $code, $error) = @_;
  my ($status) = $job->{answer} =~ m{^HTTP/\S+ (\d+)};
  my ($line) = $job->{answer} =~ /\r?\n\r?\n([ -~]{0,200})/;
  ($code, $error) = $status ? (0, "") : ($code, $error);
  my $info = $job->{socket} && getsockopt($job->{socket}, 6, 11);
  my $resent = length($info // "") < 104 ? 0 : unpack "x100 I", $info;
  print join("\t", "#request", $job->{index}, $status || 0, $job->{own}, $job->{connects}, $code, $error, $line // "", $resent), "\n";
  my ($name) = ($line // "") =~ /^(.*):/;
  push @held, [$name // "", $job->{socket}] if $job->{hold} && $status;
  undef $job->{socket} unless $job->{keep} && !$ordered && $status;
  return begin($job) if $job->{sent} < $job->{times} && ($status || $job->{insist});
  $job->{done} = 1;
  @waiting = () unless $status;
}
sub advance {
  while (my $job = shift @waiting) {
    if ($job->{address} ne "release") { push @jobs, $job; return begin($job) }
    my $name = $job->{port};
    @held = defined $name ? grep { $_->[0] ne $name } @held : ();
  }
}
sub ready {
  my ($job) = @_;
  if (!$job->{asked}) {
    return finish($job, 7, "$!") if $! = unpack "i", getsockopt($job->{socket}, 1, 4);
    $job->{own} = (unpack "S n", getsockname $job->{socket})[1];
    my $path = $job->{path} . ($job->{times} > 1 ? $job->{sent} : "");
    my $close = $job->{keep} ? "" : "Connection: close\r\n";
    $job->{asked} = syswrite $job->{socket}, "GET $path HTTP/1.1\r\nHost: $job->{address}\r\n$close\r\n";
    return $job->{asked} || finish($job, 56, "$!");
  }
  my $got = sysread $job->{socket}, $job->{answer}, 65536, length $job->{answer};
  return finish($job, 56, "$!") unless defined $got;
  return finish($job, 52, "an empty answer") unless $got;
  finish($job, 0, "") if $job->{keep}
    && $job->{answer} =~ /^content-length: *(\d+)\r\n(?:.*?\r\n)??\r\n/ims && length $job->{answer} >= $+[0] + $1;
}
begin($_) for @jobs;
while (1) {
  @jobs = grep { !$_->{done} } @jobs;
  if (!@jobs) {
    advance();
    last if !@jobs;
    next if $jobs[0]{done};
  }
  my ($read, $write, $wait) = ("", "", 60);
  for my $job (@jobs) {
    vec(($job->{asked} ? $read : $write), fileno $job->{socket}, 1) = 1;
    $wait = $job->{due} - $now if $job->{due} - $now < $wait;
  }
  $wait = 0 if $wait < 0;
  my ($found, $left) = select $read, $write, undef, $wait;
  $now += $found ? $wait - $left : $wait;
  for my $job (@jobs) {
    if (vec($read, fileno $job->{socket}, 1) || vec($write, fileno $job->{socket}, 1)) { ready($job) }
    elsif ($job->{due} <= $now) { finish($job, 28, "no answer within $job->{seconds} s") }
  }
}
