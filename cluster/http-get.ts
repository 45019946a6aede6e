import { shellWord } from '../host/shell-word.ts'

/**
 * perl asks by what is built into it, so it need not load what curl does: on the embedded kernel that is a third of the time that
 * reading all rules takes. A broken firewall can stop even this connection, so all of it has a limit. It
 * ends by a reset (SO_LINGER is 13), so that no list of connections shows it for two minutes.
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
my ($status) = $answer =~ m{^HTTP/\S+ (\d+)} or do { print STDERR "the answer was no HTTP\n"; exit 1 };
print $answer =~ s/^.*?\r\n\r\n//sr;
if ($status >= 400) { print STDERR "the answer was $status\n"; exit 22 }`

/**
 * Shell: `http_get ADDRESS PORT PATH SECONDS` prints what is there by HTTP at an IPv4 address. It ends well when the status is below
 * 400, else as curl does, with a line of what is wrong. curl is asked only where there is no perl.
 */
export const HTTP_GET = `http_get() {
  if command -v perl >/dev/null; then perl -e ${shellWord(PERL)} -- "$@"
  else curl -sS --fail --max-time "$4" "http://$1:$2$3"; fi
}`
