import { randomUUID } from 'node:crypto'
import { shellWord } from '../../cluster/shell-word.ts'
import { waitFor } from '../../cluster/wait.ts'
import { hasCondition } from '../api-object.ts'
import type { CheckContext } from '../check-context.ts'
import { fail, Trouble } from '../failure.ts'
import type { LiveCluster } from '../live-cluster.ts'
import { WEB_NAMESPACE, type WebService } from '../web-service.ts'

export const CLIENT = { namespace: 'default', name: 'client' }

/** Where the learner's client Pod runs. Fails when there is none that is ready. */
export function clientPod(
  { snapshot }: CheckContext,
  manifest = 'labs/02-ipvs/manifests/client.yaml',
): { address: string; node: string } {
  const pod = snapshot.find('Pod', CLIENT.namespace, CLIENT.name)
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  if (!pod || !hasCondition(pod, 'Ready') || !address || !node)
    fail({
      look: 'kubectl get pod client -o wide',
      expected: 'a Pod client that is ready to send requests',
      actual: pod ? `the Pod is ${pod.status?.phase ?? 'not started'} and not ready` : 'no Pod of that name',
      hint: `kubectl apply -f ${manifest}`,
    })
  return { address, node }
}

/**
 * One line for each request: status, port that it was sent from, connections made for it. perl says so without what curl loads,
 * which on the embedded kernel takes longer than the requests.
 */
const PERL = String.raw`my ($address, $port, $token, $times, $keep) = @ARGV;
$SIG{ALRM} = sub {};
$SIG{PIPE} = "IGNORE";
my ($socket, $open, $own);
for my $number (1 .. $times) {
  alarm 3;
  my ($status, $connects, $answer) = (0, 0, "");
  if (!$keep || !$open) {
    $connects = 1;
    $open = socket($socket, 2, 1, 6) && connect($socket, pack("S n C4 x8", 2, $port, split /\./, $address));
    $own = $open ? (unpack "S n", getsockname $socket)[1] : 0;
  }
  if ($open) {
    my $close = $keep ? "" : "Connection: close\r\n";
    syswrite $socket, "GET /?$token=$number HTTP/1.1\r\nHost: $address\r\n$close\r\n";
    until ($keep && $answer =~ /^content-length: *(\d+)\r\n.*?\r\n\r\n/ims && length $answer >= $+[0] + $1) {
      sysread $socket, $answer, 65536, length $answer or last;
    }
    ($status) = $answer =~ m{^HTTP/\S+ (\d+)};
  }
  printf "#request %03d %d %d\n", $status || 0, $own, $connects;
  last unless $status;
}`

/** The same of curl, for where there is no perl. */
const PRINT = "-w '#request %{http_code} %{local_port} %{num_connects}\\n'"

function requests({ address, port }: WebService, token: string, times: number, keep: boolean): string {
  const url = `http://${address}:${port}/?${token}=[1-${times}]`
  const close = keep ? '' : "-H 'Connection: close'"
  return `if command -v perl >/dev/null; then perl -e ${shellWord(PERL)} -- ${address} ${port} ${token} ${times} ${keep ? 1 : 0}
else curl -s ${close} --max-time 3 --fail-early -o /dev/null ${PRINT} '${url}'; fi`
}

/** A word that no other request has in its URL, so that access logs can be searched for it. */
export const newToken = () => `probe-${randomUUID().slice(0, 13)}`

/** Shell text: so many requests, each over a connection of its own, until one fails; prints a `#request` line for each. */
export const separateRequests = (service: WebService, token: string, times: number) =>
  requests(service, token, times, false)

/** Shell text: so many requests over one connection, until one fails; prints a `#request` line for each. */
export const requestsOnOneConnection = (service: WebService, token: string, times: number) =>
  requests(service, token, times, true)

export interface SentRequest {
  /** HTTP status, 0 when there was no answer. */
  status: number
  port: number
  connects: number
}

/** The `#request` lines of an output. */
export function parseRequests(stdout: string): SentRequest[] {
  return [...stdout.matchAll(/^#request (\d+) (-?\d+) (\d+)$/gm)].map(([, status, port, connects]) => ({
    status: Number(status),
    port: Number(port),
    connects: Number(connects),
  }))
}

/** One request as a backend logged it. */
export interface LoggedRequest {
  backend: string
  client: string
}

/** The requests with that token in the access logs of all backends; waits until `count` have been written. */
export async function loggedRequests(
  live: LiveCluster,
  { backends }: WebService,
  token: string,
  count: number,
): Promise<LoggedRequest[]> {
  try {
    return await waitFor('the access logs', 4000, async () => {
      const logs = await Promise.all(
        backends.map(async ({ address, pod }) => {
          const log = await live.log({ namespace: WEB_NAMESPACE, name: pod }, 60)
          const lines = log.split('\n').filter((line) => line.includes(token))
          return lines.map((line) => ({ backend: address, client: line.split(' ', 1)[0] ?? '' }))
        }),
      )
      return logs.flat().length >= count && logs.flat()
    })
  } catch (error) {
    if (error instanceof Trouble) throw error
    throw new Trouble('the web Pods answered, but their access logs do not show it')
  }
}
