// Connections of the machine outside the cluster to virtual servers: single requests, and connections that stay open.

import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { fromOutside, typedRequest } from '../../grading/requests.ts'
import { OUTSIDE } from '../../host/outside.ts'
import type { LvsNodes } from './lvs-nodes.ts'

/** One request on a connection of its own, which is closed after the answer, or stays open. */
interface Request {
  address: string
  port: number
  /** An address of the machine outside to send from. */
  source?: string
  hold?: boolean
}

/** An action of the client: a request, or the end of the open connections to a node, or of all of them. */
export type ClientAction = Request | { release: string } | 'release all'

const isRequest = (act: ClientAction): act is Request => act !== 'release all' && 'address' in act

/** This number of the same request. */
export const requestTimes = (times: number, request: Request): ClientAction[] =>
  Array<ClientAction>(times).fill(request)

// Perl is part of every Debian, and one process for all connections avoids a fork for each. They end with a reset, after
// which IPVS lists them for 10 s instead of two minutes.
const CLIENT = `use strict; use Socket;
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
  syswrite($socket, "GET / HTTP/1.1\\r\\nHost: lab\\r\\n\\r\\n") or return;
  my $text = '';
  while ($text !~ /\\r\\n\\r\\n(\\S+)\\n/) { sysread($socket, $text, 4096, length $text) or return }
  $text =~ /\\r\\n\\r\\n(\\S+)\\n/;
  return ($1, $socket);
}
while (<DATA>) {
  my ($act, @words) = split;
  if ($act eq 'release') {
    for (keys %held) { delete $held{$_} if !@words || $held{$_}[0] eq $words[0] }
    next;
  }
  my ($name, $socket) = talk(@words);
  print '#answer ', $name // 'nothing', "\\n";
  exit unless defined $name;
  $held{fileno $socket} = [$name =~ /^(.*):/, $socket] if $act eq 'hold';
}
__DATA__`

function asLine(act: ClientAction): string {
  if (act === 'release all') return 'release'
  if (!isRequest(act)) return `release ${act.release}`
  return `${act.hold ? 'hold' : 'request'} ${act.address} ${act.port} ${act.source ?? ''}`
}

const NODE_AND_PORT = /^(\S+):\d+$/

/** Performs actions in order, until an answer is missing. Returns the answers: the names of real servers, `NODE:PORT`. */
export async function perform(live: LiveCluster, acts: readonly ClientAction[]): Promise<string[]> {
  const { stdout } = await live.onNode(
    OUTSIDE,
    `perl - <<'END'\n${CLIENT}\n${acts.map(asLine).join('\n')}\nEND`,
  )
  return [...stdout.matchAll(/^#answer (.*)$/gm)].flatMap(([, name = '']) =>
    NODE_AND_PORT.test(name) ? name : [],
  )
}

/** Like perform, but fails on the first connection without an answer. */
export async function expectAnswered(
  live: LiveCluster,
  { director }: LvsNodes,
  acts: readonly ClientAction[],
  hint: string,
): Promise<string[]> {
  const answers = await perform(live, acts)
  const request = acts.filter(isRequest)[answers.length]
  if (!request) return answers
  return fail({
    node: director.name,
    inspect: typedRequest(fromOutside, { ...request, seconds: 2 }),
    expected: `an answer of a real server through ${request.address}:${request.port}`,
    actual: 'no answer',
    hint,
  })
}

/** The node in a real server's answer. */
export const nodeOf = (answer = ''): string => NODE_AND_PORT.exec(answer)?.[1] ?? ''

export const answersFrom = (answers: readonly string[], node: string): number =>
  answers.filter((answer) => nodeOf(answer) === node).length

/** How often each real server's node answered, as `NODE 6, NODE 2`. */
export const tally = (answers: readonly string[], { realServers }: LvsNodes): string =>
  realServers.map(({ node }) => `${node} ${answersFrom(answers, node)}`).join(', ')
