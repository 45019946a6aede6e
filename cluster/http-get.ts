import { shellWord } from '../host/shell-word.ts'

/**
 * perl uses its built-in socket functions and loads no libraries as curl does: on the embedded kernel curl takes a third of
 * the time of reading all rules. A broken firewall can block even this connection, so the whole request has a time limit. The
 * connection ends with a reset (SO_LINGER is 13), so that it does not stay in TIME_WAIT, visible in lists of connections.
 */
const PERL = String.raw`my ($address, $port, $path, $seconds) = @ARGV;
my $socket;
$SIG{ALRM} = sub { print STDERR "no answer: none within $seconds s\n"; exit 28 };
alarm $seconds;
socket($socket, 2, 1, 6) && setsockopt($socket, 1, 13, pack "ii", 1, 0) && connect($socket, pack("S n C4 x8", 2, $port, split /\./, $address))
  or do { print STDERR "no answer: $!\n"; exit 7 };
syswrite $socket, "GET $path HTTP/1.0\r\nHost: $address\r\n\r\n";
my $answer = "";
1 while sysread $socket, $answer, 65536, length $answer;
my ($status) = $answer =~ m{^HTTP/\S+ (\d+)} or do { print STDERR "the answer was not HTTP\n"; exit 1 };
print $answer =~ s/^.*?\r\n\r\n//sr;
if ($status >= 400) { print STDERR "the answer was $status\n"; exit 22 }`

/**
 * Shell: `http_get ADDRESS PORT PATH SECONDS` sends an HTTP GET to an IPv4 address and prints the response body. The exit
 * code is 0 when the status is below 400, else the one that curl would return, with a line on standard error. curl is used
 * only if there is no perl.
 */
export const HTTP_GET = `http_get() {
  if command -v perl >/dev/null; then perl -e ${shellWord(PERL)} -- "$@"
  else curl -sS --fail --max-time "$4" "http://$1:$2$3"; fi
}`
