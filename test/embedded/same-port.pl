# Opens a connection from one local port to each address in turn and prints which of them opened.
# Arguments: the local port, then addresses with their ports.
use strict;
use warnings;
use IO::Socket::INET;

my ($port, @targets) = @ARGV;
for my $target (@targets) {
    my $socket = IO::Socket::INET->new(
        PeerAddr  => $target,
        LocalPort => $port,
        ReuseAddr => 1,
        Timeout   => 5,
    );
    print $socket ? "open\n" : "lost\n";
}
