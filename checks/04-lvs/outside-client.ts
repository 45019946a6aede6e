// Requests of the machine outside the cluster to virtual servers: single requests, and connections that stay open.

import { onNode } from '../../grading/difference-report.ts'
import { expectNone } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { OUTSIDE } from '../../host/outside.ts'
import type { Stage } from './stage.ts'

/** One request over a new connection. */
export interface Request {
  /** `192.0.2.10:8101` */
  to: string
  /** An address of the machine outside to send from. */
  source?: string
}

/** The name that a real server returns, `NODE:PORT`; undefined without an answer. */
export type Answer = string | undefined

const NODE_AND_PORT = /^(\S+):\d+$/

/** The node in a real server's answer. */
export const nodeOf = (answer: Answer): string => NODE_AND_PORT.exec(answer ?? '')?.[1] ?? 'nobody'

const named = (text = ''): Answer => (NODE_AND_PORT.test(text) ? text : undefined)

/** Sends requests in order and returns the answers; after one without an answer no more are sent. */
export async function askFromOutside(live: LiveCluster, requests: readonly Request[]): Promise<Answer[]> {
  const lines = requests.map(({ to, source = '' }) => `ask ${to.replace(':', ' ')} ${source}`)
  const answers = await perform(live, lines)
  return requests.map((_, index) => answers[index])
}

/** An action of the client with connections that stay open. */
export type Act = { hold: string } | { release: string } | 'release all'

/**
 * Performs the actions in order on one set of open connections, and returns the answer on each opened connection, until one
 * is missing.
 */
export async function holdFromOutside(live: LiveCluster, acts: readonly Act[]): Promise<Answer[]> {
  const lines = acts.map((act) => {
    if (act === 'release all') return 'release'
    return 'hold' in act ? `hold ${act.hold.replace(':', ' ')}` : `release ${act.release}`
  })
  const answers = await perform(live, lines)
  return acts.filter((act) => act !== 'release all' && 'hold' in act).map((_, index) => answers[index])
}

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
  print '#said ', $name // 'nothing', "\\n";
  exit unless defined $name;
  $held{fileno $socket} = [$name =~ /^(.*):/, $socket] if $act eq 'hold';
}
__DATA__`

async function perform(live: LiveCluster, lines: readonly string[]): Promise<Answer[]> {
  const { stdout } = await live.onNode(OUTSIDE, `perl - <<'END'\n${CLIENT}\n${lines.join('\n')}\nEND`)
  return [...stdout.matchAll(/^#said (.*)$/gm)].map(([, name]) => named(name))
}

/** The command that sends one request, as the learner types it. */
const asTyped = ({ to, source }: Request) =>
  onNode(OUTSIDE, `curl -sS --max-time 2 ${source === undefined ? '' : `--interface ${source} `}http://${to}`)

/** Fails on the first request without an answer. */
export function mustBeAnswered(
  { director }: Stage,
  requests: readonly Request[],
  answers: readonly Answer[],
  hint: string,
): void {
  const lost = requests.find((_, index) => answers[index] === undefined)
  expectNone(lost, (request) => ({
    node: director.name,
    inspect: asTyped(request),
    expected: `an answer of a real server through ${request.to}`,
    actual: 'no answer',
    hint,
  }))
}

/** How often each node answered, as `NODE 6, NODE 2`. */
export function tally(answers: readonly Answer[], nodes: readonly string[]): string {
  return nodes.map((node) => `${node} ${countOf(answers, node)}`).join(', ')
}

export const countOf = (answers: readonly Answer[], node: string): number =>
  answers.filter((answer) => nodeOf(answer) === node).length
