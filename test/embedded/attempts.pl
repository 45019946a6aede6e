# Tries to reach another program of the same user, each attempt on its own, by the system calls of x86-64; prints the names of those that worked.
#   perl attempts.pl VICTIM FOLDER SOCKET QUEUE SEGMENT
# FOLDER holds a file "file" and is the victim's, SOCKET is its datagram socket, QUEUE and SEGMENT its message queue and shared memory (sysvipc(7)).
use strict;
use Socket;
my ($victim, $folder, $path, $queue, $segment) = map { /^\d+$/ ? $_ + 0 : $_ } @ARGV;
my $address = pack_sockaddr_un($path);

my %attempts = (
  'limits' => sub { my $limit = pack('QQ', 0, 0); syscall(302, $victim, 4, $limit, 0) },
  'priority' => sub { syscall(141, 0, $victim, 19) },
  'processors' => sub { my $mask = pack('Q', 1); syscall(203, $victim, 8, $mask) },
  'scheduler' => sub { my $parameters = pack('L', 0); syscall(144, $victim, 3, $parameters) },
  'parameters of the scheduler' => sub { my $parameters = pack('L', 0); syscall(142, $victim, $parameters) },
  'priority of input and output' => sub { syscall(251, 1, $victim, (3 << 13) | 7) },
  'a signal' => sub { kill(0, $victim) ? 0 : -1 },
  'signal to a thread' => sub { syscall(200, $victim, 0) },
  'queued signal' => sub { my $info = pack('lll', 0, 0, -1) . "\0" x 116; syscall(129, $victim, 0, $info) },
  # It works for a descriptor of one's own; whether the signal arrives, the victim shows.
  'signal by a descriptor' => sub {
    socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, 0) or return -1;
    my $set = sub { syscall(72, fileno($one), @_) };
    $set->(8, $victim) < 0 || $set->(10, 10) < 0 || $set->(4, 0x2000) < 0 and return -1;
    syswrite($other, 'x');
    -1;
  },
  'datagram to a path' => sub {
    socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or return -1;
    send($socket, 'x', 0, $address) // -1;
  },
  'datagram from a pair' => sub {
    socketpair(my $one, my $other, AF_UNIX, SOCK_DGRAM, 0) or return -1;
    send($one, 'x', 0, $address) // -1;
  },
  'message' => sub { my $message = pack('Qa4', 1, 'text'); syscall(69, $queue, $message, 4, 2048) },
  'removed message queue' => sub { syscall(71, $queue, 0, 0) },
  'attached memory' => sub { syscall(30, $segment, 0, 4096) },
  'removed memory' => sub { syscall(31, $segment, 0, 0) },
  'new queue' => sub { my $new = syscall(68, 0, 0600); syscall(71, $new, 0, 0) if $new >= 0; $new },
  'watched folder' => sub {
    my $handle = syscall(294, 0);
    my $name = "$folder\0";
    $handle < 0 ? -1 : syscall(254, $handle, $name, 0x100);
  },
  'notified of a folder' => sub { opendir(my $handle, $folder) or return -1; syscall(72, fileno($handle), 1026, 4) },
  'locked file' => sub { open(my $handle, '<', '/bin/sh') or return -1; syscall(73, fileno($handle), 5) },
  'file locked by its bytes' => sub { open(my $handle, '<', $0) or return -1; my $lock = pack('ssx4qqlx4', (0) x 5); syscall(72, fileno($handle), 6, $lock) },
  'file locked for a descriptor' => sub { open(my $handle, '<', $0) or return -1; my $lock = pack('ssx4qqlx4', (0) x 5); syscall(72, fileno($handle), 37, $lock) },
  # FS_IOC_GETFLAGS and FS_IOC_SETFLAGS: those that it has.
  'flags of a file' => sub {
    open(my $handle, '<', $0) or return -1;
    my $flags = pack('q', 0);
    ioctl($handle, 0x80086601, $flags);
    ioctl($handle, 0x40086602, $flags) // -1;
  },
  'generation of a file' => sub {
    open(my $handle, '<', $0) or return -1;
    my $generation = pack('q', 0);
    ioctl($handle, 0x80087601, $generation);
    ioctl($handle, 0x40087602, $generation) // -1;
  },
  'user namespace' => sub { syscall(272, 0x10000000) },
  'clone into a user namespace' => sub {
    my $child = syscall(56, 0x10000000 | 17, 0, 0, 0, 0);
    exec('true') if $child == 0;
    $child;
  },
  'clone3 into a user namespace' => sub {
    my $arguments = pack('Q8', 0x10000000, 0, 0, 0, 17, 0, 0, 0);
    my $child = syscall(435, $arguments, 64);
    exec('true') if $child == 0;
    $child;
  },
);

for my $name (sort keys %attempts) {
  # Each in a process of its own, as some change their own process.
  my $child = fork() // die;
  exit($attempts{$name}->() < 0 ? 1 : 0) if $child == 0;
  waitpid($child, 0);
  print "$name\n" if $? == 0;
}
