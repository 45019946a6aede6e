# Sends a request every 300 ms over one connection to an address, and prints the outcome of each: `answered`, or
# `lost` and why, which ends it. Ends as well when the file of its second argument exists, or after five minutes.
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(time sleep);
$| = 1;
my ($address, $stop) = @ARGV;
my $end = time + 300;
my $socket = IO::Socket::INET->new(PeerAddr => $address, Timeout => 5) or die "lost: $!\n";

sub ask {
    local $SIG{ALRM} = sub { die "no answer within 3 s\n" };
    alarm 3;
    print $socket "GET /?held HTTP/1.1\r\nHost: shop\r\n\r\n" or die "$!\n";
    my $answer = '';
    until ($answer =~ /\r\n\r\n/
        && $answer =~ /content-length: (\d+)/i
        && length($answer) - index($answer, "\r\n\r\n") - 4 >= $1)
    {
        sysread $socket, $answer, 65536, length $answer or die "closed\n";
    }
    alarm 0;
}

while (time < $end && !-e $stop) {
    if (eval { ask(); 1 }) { print "answered\n"; sleep 0.3; next }
    print "lost: $@";
    last;
}
