import type { MeasuringNode } from './measuring-node.ts'

/** New connections per second while CPU use is measured. */
export const RATE = 500
/** Rounds per block: the medians of a block are one value. */
const ROUNDS = 40

/** The medians of a block of rounds, and the speed of the machine during it. */
export interface RoundBlock {
  /** In nanoseconds, two for each quantity: to the last Service, and the difference to the first in the same round. */
  medians: readonly number[]
  /** Duration of a fixed piece of work without network, which is the same in the whole run. */
  work: number
}

/**
 * Requests on a new and on an open connection: their durations, alternately to the first and to the last of two addresses.
 * A process of the measuring node sends them.
 */
export const timeRequests = (
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<RoundBlock[]> => timeBlocks(node, requests, addresses, blocks)

/** New connections at a fixed rate: the time that the node, which has one processor, was busy with each. */
export const timeConnections = (
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<RoundBlock[]> => timeBlocks(node, connectionsAtRate, addresses, blocks)

async function timeBlocks(
  node: MeasuringNode,
  program: string,
  addresses: readonly string[],
  blocks: number,
) {
  const lines = await node.ask(program, [blocks, ROUNDS, ...addresses])
  return lines.map(
    (numbers): RoundBlock => ({
      medians: numbers.slice(0, -1),
      work: numbers.at(-1) ?? Number.NaN,
    }),
  )
}

/** A block whose fixed work takes this multiple of the fastest one was slowed down by other processes. */
const SLOWED = 1.2
/** Minimum share of the blocks to keep, even if most were slowed down. */
const KEPT = 2 / 3

/** To the first and the last Service together: one of them would select blocks by the difference that is measured. */
const totalOf = ({ medians: [last = Number.NaN, more = Number.NaN] }: RoundBlock): number =>
  2 * last - more

/**
 * The blocks of one size that were not slowed down by other load, in their original order; at least two thirds of all, the least
 * affected ones first. `fastest` is the shortest duration of the fixed work in the whole run.
 */
export function selectUndisturbed(all: readonly RoundBlock[], fastest: number): RoundBlock[] {
  const shortest = Math.min(...all.map(totalOf))
  const slowed = (block: RoundBlock) => Math.max(block.work / fastest, totalOf(block) / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}

/**
 * A client in Perl, which every Debian has. Starting a process in the guest takes 20 ms, so one process sends all requests; it
 * blocks, so that no event loop affects the figures. Time::HiRes is not part of perl-base; clock_gettime is the system call 228 of
 * x86-64 and 113 of arm64, sched_yield 24 and 124.
 *
 * Arguments: blocks, rounds per block, first address, last address. Each round takes a turn with both addresses, in random order, so
 * that other load on the machine affects both. `turn` returns the duration of each quantity for address number $i. Prints one line
 * per block with medians in nanoseconds: two for each quantity (Block.medians), and the fixed piece of work. A reset closes each
 * connection, so that no port stays in TIME_WAIT for two minutes.
 */
const client = (prepare: string, turn: string) => `
use Socket; use POSIX (); use strict;
my ($gettime, $yield) = (POSIX::uname())[4] eq 'aarch64' ? (113, 124) : (228, 24);
sub now { my $t = pack('qq', 0, 0); syscall($gettime, 1, $t); my ($s, $n) = unpack('qq', $t); return $s * 1e9 + $n }
sub median { my @v = sort { $a <=> $b } @_; return $v[@v / 2] }
sub work_once { my $c = now(); my $x = 0; $x += $_ for 1 .. 1000; return now() - $c }
sub open_one {
  my ($to) = @_;
  socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
  setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)); setsockopt($s, 6, 1, 1);
  connect($s, $to) or die "connect: $!"; return $s
}
sub ask { my ($s) = @_; syswrite($s, 'x', 1) == 1 or die "write: $!"; sysread($s, my $b, 1) == 1 or die "no answer" }
my ($blocks, $rounds, @addresses) = @ARGV;
my @to = map { pack_sockaddr_in(80, inet_aton($_)) } @addresses;
alarm 600;
${prepare}
sub turn { my ($i) = @_; ${turn} }
for (1 .. $blocks) {
  my (@took, @work);
  for my $round (0 .. $rounds - 1) {
    my $order = int(rand(2));
    for my $i ($order, 1 - $order) { my @ns = turn($i); $took[$_][$i][$round] = $ns[$_] for 0 .. $#ns }
    push @work, work_once() if $round % 4 == 0;
  }
  my @line = map { my ($first, $last) = @$_; median(@$last), median(map { $last->[$_] - $first->[$_] } 0 .. $#$last) } @took;
  print join(' ', @line, median(@work)), "\\n";
}
`

const requests = client(
  'my @kept = map { my $s = open_one($_); ask($s); $s } @to;',
  `my $a = now(); my $s = open_one($to[$i]); ask($s); my $b = now(); close($s);
  my $c = now(); ask($kept[$i]); return ($b - $a, now() - $c)`,
)

/** At irregular intervals, so that periodic load affects both. The node is idle in between, and the client has the lowest priority: the time for a connection ends when it runs again. */
const connectionsAtRate = client(
  'setpriority(0, 0, 19); my $due = now();',
  `$due += (0.5 + rand()) * 1e9 / ${RATE};
  my $wait = $due - now();
  if ($wait > 0) { select(undef, undef, undef, $wait / 1e9) } else { $due = now() }
  my $a = now(); close(open_one($to[$i])); syscall($yield); return now() - $a`,
)
