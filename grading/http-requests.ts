import { shellWord } from '../host/shell-word.ts'

/** Requests over HTTP to one address, one after the other. */
export interface HttpRequests {
  /** IPv4. */
  address: string
  port: number
  /** Plain characters. Of several requests each adds its number to it. */
  path?: string
  /** 1 unless given. */
  times?: number
  /** The address to send from; the system's choice unless given. */
  source?: string
  /** So long an answer is waited for; 3 s unless given. */
  seconds?: number
  /** All over one connection; else each over its own. */
  keep?: boolean
  /** Goes on after a request that was not answered. */
  insist?: boolean
}

/** What came of one request. */
export interface HttpReply {
  /** Which of the requests it was. */
  index: number
  /** HTTP status, 0 when there was no answer. */
  status: number
  /** The port that it was sent from. */
  port: number
  /** Connections made for it: 0 when it went over one that was there. */
  connects: number
  /** What curl ends with, see libcurl-errors(3): 0, 7 where no connection was made, 28 where time was up. */
  code: number
  /** What was wrong, in words of the system or of curl; empty when there was an answer. */
  error: string
  /** The answer's first line behind its headers. */
  line: string
}

const PRINT = String.raw`\t%{http_code}\t%{local_port}\t%{num_connects}\t%{exitcode}\t%{errormsg}\t\n`

/** One series. Bodies are printed before the result, and sed marks all lines, so that several can write at once. */
function series(request: HttpRequests, index: number): string {
  const { address, port, times = 1, path = times > 1 ? '/?request=' : '/', source, seconds = 3, keep, insist } = request
  const options = [
    ...(keep ? [] : ["-H 'Connection: close'"]),
    `--max-time ${seconds}`,
    ...(insist ? [] : ['--fail-early']),
    ...(source === undefined ? [] : [`--interface ${source}`]),
    ...[`-w '\\n#request\\t${index}${PRINT}'`],
  ]
  const url = `http://${address}:${port}${path}${times > 1 ? `[1-${times}]` : ''}`
  return `curl -s ${options.join(' ')} ${shellWord(url)} | sed 's/^/#curl /' &`
}

/** Shell text for a node or a Pod with curl 7.75 or later: sends all requests, each series at the same time as the others, and prints what came of them. */
export const httpRequests = (requests: readonly HttpRequests[]): string => `${requests.map(series).join('\n')}\nwait`

/** Shell text for a node: one request over HTTP to an IPv4 address, which ends well when it is answered with a status below 400. */
export const httpRequest = (address: string, port: number): string =>
  `curl -sS --fail --max-time 3 -o /dev/null ${shellWord(`http://${address}:${port}/`)}`

/** What an output says of requests, in the order in which they ended; lines of anything else are passed over. */
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
    const [error = '', line = ''] = fields.slice(5)
    replies.push({ index, status, port, connects, code, error: status > 0 ? '' : error, line: line || body })
    body = ''
  }
  return replies
}
