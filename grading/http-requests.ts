import { shellWord } from '../host/shell-word.ts'

/** Requests over HTTP to one address, one after the other. */
export interface HttpRequests {
  /** IPv4. */
  address: string
  port: number
  /** Plain characters. Each of several requests appends its number. */
  path?: string
  /** Default 1. */
  times?: number
  /** The source address; chosen by the system by default. */
  source?: string
  /** Timeout of an answer; default 3 s. */
  seconds?: number
  /** All requests over one connection; otherwise each over a new one. */
  keep?: boolean
  /** Continues after a request without an answer. */
  insist?: boolean
}

/** The result of one request. */
export interface HttpReply {
  /** The index of the request. */
  index: number
  /** HTTP status, 0 when there was no answer. */
  status: number
  /** Its source port. */
  port: number
  /** Number of new connections: 0 if it used an existing one. */
  connects: number
  /** curl's exit code, see libcurl-errors(3): 0, 7 if there was no connection, 28 after the timeout. */
  code: number
  /** The error text of the system or of curl; empty if there was an answer. */
  error: string
  /** The first line of the answer's body. */
  line: string
  /** Retransmitted packets of its connection; 0 with curl. */
  resent: number
}

type Complete = Required<HttpRequests>

const withDefaults = ({ times = 1, ...request }: HttpRequests): Complete => {
  const path = times > 1 ? '/?request=' : '/'
  return { path, times, source: '', seconds: 3, keep: false, insist: false, ...request }
}

/** Arguments of a request, in the order in which perl reads them. */
const WORDS = 'address port path times source seconds keep insist'

/**
 * All series in parallel, each sequentially, with perl's built-in functions: no module is loaded, because each program and
 * library costs the embedded kernel more than the requests do. Time is measured by select(2). 2049 is SOCK_STREAM |
 * SOCK_NONBLOCK, 115 EINPROGRESS, 1, 4 and 13 are SOL_SOCKET, SO_ERROR and SO_LINGER, 6 and 11 IPPROTO_TCP and TCP_INFO, on
 * every architecture that clusters run on; byte 100 and following of its result are tcpi_total_retrans
 * (include/uapi/linux/tcp.h). Connections end with a reset: conntrack and IPVS list them for 10 s, but regularly closed ones
 * for two minutes, which would disturb the learner's counts.
 */
const PERL = String.raw`$SIG{PIPE} = "IGNORE"; $| = 1;
my ($now, $count) = (0, 0);
my @jobs = map { my %job = (index => $count++, sent => 0); @job{qw(${WORDS})} = split / /; \%job } @ARGV;
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
  undef $job->{socket} unless $job->{keep} && $status;
  return begin($job) if $job->{sent} < $job->{times} && ($status || $job->{insist});
  $job->{done} = 1;
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
while (@jobs = grep { !$_->{done} } @jobs) {
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
}`

const CURL_PRINT = String.raw`\t%{http_code}\t%{local_port}\t%{num_connects}\t%{exitcode}\t%{errormsg}\t\n`

/** The same with curl, if there is no perl. Bodies are printed first, and sed prefixes all lines, because series run in parallel. */
function asCurl(
  { address, port, path, times, source, seconds, keep, insist }: Complete,
  index: number,
): string {
  const options = [
    ...(keep ? [] : ["-H 'Connection: close'"]),
    `--max-time ${seconds}`,
    ...(insist ? [] : ['--fail-early']),
    ...(source === '' ? [] : [`--interface ${source}`]),
    ...[`-w '\\n#request\\t${index}${CURL_PRINT}'`],
  ]
  const url = `http://${address}:${port}${path}${times > 1 ? `[1-${times}]` : ''}`
  return `curl -s ${options.join(' ')} ${shellWord(url)} | sed 's/^/#curl /' &`
}

/** Shell text for a node or a Pod: sends all requests, the series in parallel, and prints the results. */
export function httpRequests(requests: readonly HttpRequests[]): string {
  const complete = requests.map(withDefaults)
  const words = complete.map(({ address, port, path, times, source, seconds, keep, insist }) =>
    shellWord(
      [address, port, path, times, source, seconds, Number(keep), Number(insist)].join(' '),
    ),
  )
  return `if command -v perl >/dev/null; then perl -e ${shellWord(PERL)} -- ${words.join(' ')}
else ${complete.map(asCurl).join('\n')}
wait; fi`
}

/** Reads the results of requests from an output, in the order in which they ended; other lines are ignored. */
export function readReplies(stdout: string): HttpReply[] {
  const replies: HttpReply[] = []
  let body = ''
  for (const text of stdout.split('\n')) {
    const [mark, ...fields] = text.replace(/^#curl (?=#request\t)/, '').split('\t')
    if (mark !== '#request') {
      if (body === '') body = /^#curl (.+?)\r?$/.exec(text)?.[1] ?? ''
      continue
    }
    const [index = 0, status = 0, port = 0, connects = 0, code = 0] = fields.map(Number)
    const [error = '', line = '', resent = '0'] = fields.slice(5)
    const said = { error: status > 0 ? '' : error, line: line || body, resent: Number(resent) || 0 }
    replies.push({ index, status, port, connects, code, ...said })
    body = ''
  }
  return replies
}
