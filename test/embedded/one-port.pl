# Opens a connection from one local port to each address in turn and keeps it, then sends a request over each and prints what became of it:
# `answered` or `lost`. Arguments: the local port, then addresses with their ports.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Select;

my ($port, @targets) = @ARGV;
my @sockets = map {
    IO::Socket::INET->new(
        PeerAddr  => $_,
        LocalPort => $port,
        ReuseAddr => 1,
        Timeout   => 5,
    )
} @targets;
for my $socket (@sockets) {
    if ($socket) { print $socket "GET / HTTP/1.1\r\nHost: shop\r\n\r\n" }
    print $socket && IO::Select->new($socket)->can_read(3) ? "answered\n" : "lost\n";
}
