// Connections of the machine outside the cluster to virtual servers: single requests, and connections that stay open.

import { fail, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { OUTSIDE } from '../../host/outside.ts'
import type { LvsNodes } from './lvs-nodes.ts'

/**
 * An action of the client: one request (to `192.0.2.10:8101`), a connection that stays open, or the end of those to a node or of all. A
 * `source` is an address of the machine outside to send from.
 */
export type Act = { request: string; source?: string } | { hold: string } | { release: string } | 'release all'

/** The actions that open a connection, and so get an answer. */
type Opening = Exclude<Act, 'release all' | { release: string }>
const opens = (act: Act): act is Opening => act !== 'release all' && !('release' in act)

/** This number of requests to a virtual server. */
export const requests = (times: number, to: string): Act[] => Array.from({ length: times }, () => ({ request: to }))

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

function asLine(act: Act): string {
  if (act === 'release all') return 'release'
  if ('release' in act) return `release ${act.release}`
  if ('hold' in act) return `hold ${act.hold.replace(':', ' ')}`
  return `request ${act.request.replace(':', ' ')} ${act.source ?? ''}`
}

const NODE_AND_PORT = /^(\S+):\d+$/

/** Performs actions in order, until an answer is missing. Returns the answers: the names of real servers, `NODE:PORT`. */
export async function perform(live: LiveCluster, acts: readonly Act[]): Promise<string[]> {
  const { stdout } = await live.onNode(OUTSIDE, `perl - <<'END'\n${CLIENT}\n${acts.map(asLine).join('\n')}\nEND`)
  return [...stdout.matchAll(/^#answer (.*)$/gm)].flatMap(([, name = '']) => (NODE_AND_PORT.test(name) ? name : []))
}

/** The command that sends one request, as the learner types it. */
function typedCommand(act: Opening): string {
  const source = 'source' in act && act.source !== undefined ? `--interface ${act.source} ` : ''
  return onNode(OUTSIDE, `curl -sS --max-time 2 ${source}http://${'request' in act ? act.request : act.hold}`)
}

/** Like perform, but fails on the first connection without an answer. */
export async function expectAnswers(
  live: LiveCluster,
  { director }: LvsNodes,
  acts: readonly Act[],
  hint: string,
): Promise<string[]> {
  const answers = await perform(live, acts)
  const act = acts.filter(opens)[answers.length]
  if (act)
    fail({
      node: director.name,
      inspect: typedCommand(act),
      expected: `an answer of a real server through ${'request' in act ? act.request : act.hold}`,
      actual: 'no answer',
      hint,
    })
  return answers
}

/** The node in a real server's answer. */
export const nodeOf = (answer = ''): string => NODE_AND_PORT.exec(answer)?.[1] ?? ''

export const countOf = (answers: readonly string[], node: string): number =>
  answers.filter((answer) => nodeOf(answer) === node).length

/** How often each real server's node answered, as `NODE 6, NODE 2`. */
export const tally = (answers: readonly string[], { realServers }: LvsNodes): string =>
  realServers.map(({ node }) => `${node} ${countOf(answers, node)}`).join(', ')
