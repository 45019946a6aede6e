import type { ServerResponse } from 'node:http'
import { stringify } from 'yaml'
import type { Accepted } from './negotiation.ts'
import { internalError, StatusError } from './status-error.ts'

/** Writes one object as the whole answer. */
export function sendObject(
  response: ServerResponse,
  code: number,
  body: unknown,
  encoding: Accepted['encoding'] = 'json',
  headers: Record<string, string> = {},
): void {
  const text = encoding === 'yaml' ? stringify(body) : `${JSON.stringify(body)}\n`
  send(response, code, `application/${encoding}`, text, headers)
}

export function send(
  response: ServerResponse,
  code: number,
  type: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, {
    ...headers,
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-cache, private',
  })
  response.end(body)
}

/** Any failure as a Status; what isn't a StatusError is the server's own fault (500). */
export function statusOf(error: unknown): StatusError {
  if (error instanceof StatusError) return error
  return internalError(error instanceof Error ? error.message : String(error))
}

/** `Warning` header of a field that was ignored (RFC 7234 5.5, code 299), as kubectl shows it. */
export function warningHeader(texts: readonly string[]): Record<string, string> {
  if (texts.length === 0) return {}
  const quoted = texts.map((text) => `299 - ${JSON.stringify(text)}`)
  // Header text is limited to Latin-1 without control characters.
  return { warning: quoted.join(', ').replaceAll(/[^\x20-\x7e]/g, '?') }
}
