import { programText } from '../host/program-text.ts'
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
  /**
   * curl's exit code, see libcurl-errors(3): 0, 7 if there was no connection, 28 after the timeout.
   */
  code: number
  /** The error text of the system or of curl; empty if there was an answer. */
  error: string
  /** The first line of the answer's body. */
  line: string
  /** Retransmitted packets of its connection; 0 with curl. */
  resent: number
}

/**
 * A request on a connection of its own, which is closed after the answer, or stays open (`hold`).
 */
export interface OrderedRequest extends Pick<HttpRequests, 'address' | 'port' | 'source'> {
  hold?: boolean
}

/**
 * A request, or the end of the connections that are held: those that were answered by `NAME:PORT`,
 * or all of them.
 */
export type ClientAction = OrderedRequest | { release: string } | 'release all'

type Complete = Required<HttpRequests>

const withDefaults = ({ times = 1, ...request }: HttpRequests): Complete => {
  const path = times > 1 ? '/?request=' : '/'
  return { path, times, source: '', seconds: 3, keep: false, insist: false, ...request }
}

/**
 * All series in parallel, each sequentially, with perl's built-in functions: no module is loaded,
 * because each program and library costs the embedded kernel more than the requests do. Time is
 * measured by select(2). 2049 is SOCK_STREAM | SOCK_NONBLOCK, 115 EINPROGRESS, 1, 4 and 13 are
 * SOL_SOCKET, SO_ERROR and SO_LINGER, 6 and 11 IPPROTO_TCP and TCP_INFO, on every architecture that
 * clusters run on; byte 100 and following of its result are tcpi_total_retrans
 * (include/uapi/linux/tcp.h). Connections end with a reset: conntrack and IPVS list them for 10 s,
 * but regularly closed ones for two minutes, which would disturb the learner's counts.
 */
const PERL = programText('grading/http-requests.pl')

const CURL_PRINT = String.raw`\t%{http_code}\t%{local_port}\t%{num_connects}\t%{exitcode}\t%{errormsg}\t\n`

/**
 * The same with curl, if there is no perl. Bodies are printed first, and sed prefixes all lines,
 * because series run in parallel.
 */
function asCurl(
  { address, port, path, times, source, seconds, keep, insist }: Complete,
  index: number,
): string {
  const options = [
    ...(keep ? [] : ["-H 'Connection: close'"]),
    `--max-time ${seconds}`,
    ...(insist ? [] : ['--fail-early']),
    ...(source === '' ? [] : [`--interface ${source}`]),
    `-w '\\n#request\\t${index}${CURL_PRINT}'`,
  ]
  const url = `http://${address}:${port}${path}${times > 1 ? `[1-${times}]` : ''}`
  return `curl -s ${options.join(' ')} ${shellWord(url)} | sed 's/^/#curl /' &`
}

/**
 * Shell text for a node or a Pod: sends all requests, the series in parallel, and prints the
 * results.
 */
export function httpRequests(requests: readonly HttpRequests[]): string {
  const complete = requests.map(withDefaults)
  const lines = complete.map(({ address, port, path, times, source, seconds, keep, insist }) =>
    shellWord(
      [address, port, path, times, source, seconds, Number(keep), Number(insist)].join(' '),
    ),
  )
  return `if command -v perl >/dev/null; then perl -e ${shellWord(PERL)} -- ${lines.join(' ')}
else ${complete.map(asCurl).join('\n')}
wait; fi`
}

/**
 * The longest wait for each connection and answer of requests in order: all of them are on the
 * network of the nodes.
 */
const ORDERED_SECONDS = 0.5

function asLine(action: ClientAction): string {
  if (action === 'release all') return 'release'
  if ('release' in action) return `release ${action.release}`
  const { address, port, source = '', hold = false } = action
  return [address, port, '/', 1, source, ORDERED_SECONDS, 1, 0, Number(hold)].join(' ')
}

/**
 * Shell text for a machine with perl: performs actions one after the other, until a request has no
 * answer, and prints the results; the index of a result is that of its action. Connections end with
 * a reset, those that are held at the latest with the program.
 */
export const requestsInOrder = (actions: readonly ClientAction[]): string =>
  `perl -e ${shellWord(PERL)} -- in-order ${actions.map(asLine).map(shellWord).join(' ')}`

/**
 * Reads the results of requests from an output, in the order in which they ended; other lines are
 * ignored.
 */
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
    const reply = {
      error: status > 0 ? '' : error,
      line: line || body,
      resent: Number(resent) || 0,
    }
    replies.push({ index, status, port, connects, code, ...reply })
    body = ''
  }
  return replies
}
