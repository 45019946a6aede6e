# Holds connections to an address, with a request every 300 ms over each, and prints how each ended: `answered` if no request was lost
# until the file of the third argument existed, or `lost` and why. Arguments: address, number of connections, file.
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(time sleep);
$| = 1;
my ($address, $count, $stop) = @ARGV;
my $end = time + 300;

sub ask {
    my ($socket) = @_;
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

sub hold {
    my $socket = IO::Socket::INET->new(PeerAddr => $address, Timeout => 5) or return "lost: $!\n";
    while (time < $end && !-e $stop) {
        return "lost: $@" unless eval { ask($socket); 1 };
        sleep 0.3;
    }
    return "answered\n";
}

for (1 .. $count) {
    next if fork;
    print hold();
    exit;
}
1 until wait == -1;
