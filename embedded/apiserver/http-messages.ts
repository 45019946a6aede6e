import type { IncomingMessage, ServerResponse } from 'node:http'
import { isObject, type Json, type JsonObject } from './json.ts'
import { decodeProtobuf } from './protobuf.ts'
import type { Schema } from './schema.ts'
import { absentKind, badRequest, messageOf, StatusError } from './status-error.ts'

/** Writes one object as the whole answer. */
export function sendObject(
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  send(response, code, 'application/json', `${JSON.stringify(body)}\n`, headers)
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

/** `Warning` header of a field that was ignored (RFC 7234 5.5, code 299), as kubectl shows it. */
export function warningHeader(texts: readonly string[]): Record<string, string> {
  if (texts.length === 0) return {}
  const quoted = texts.map((text) => `299 - ${JSON.stringify(text)}`)
  // Header text is limited to Latin-1 without control characters.
  return { warning: quoted.join(', ').replaceAll(/[^\x20-\x7e]/g, '?') }
}

/**
 * Whether a client prefers objects as a table. Unsupported forms (protobuf, YAML, other versions of tables) are skipped if
 * the client also accepts another one; otherwise 406.
 */
export function wantsTable(accept = '*/*'): boolean {
  for (const entry of accept.split(',')) {
    const [type = '', ...parameters] = entry.split(';').map((part) => part.trim())
    if (!['application/json', 'application/*', '*/*'].includes(type)) continue
    const values = new Map(parameters.map((part) => part.split('=', 2) as [string, string]))
    if (!values.has('as')) return false
    if (values.get('as') === 'Table' && values.get('g') === 'meta.k8s.io' && values.get('v') === 'v1') return true
  }
  throw new StatusError('NotAcceptable', 'only the following media types are accepted: application/json')
}

/** As in Kubernetes: a request may carry 3 MiB. */
const limit = 3 * 1024 * 1024

const protobufType = 'application/vnd.kubernetes.protobuf'

export type PatchType = 'json' | 'merge' | 'strategic'

const patchTypes: Readonly<Record<string, PatchType>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
}

/** The body's bytes; 413 if it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    const bytes: Buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    size += bytes.length
    if (size > limit) throw new StatusError('RequestEntityTooLarge', `Request entity too large: limit is ${limit}`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

/** The object in a body of JSON or protobuf, empty for an empty body; 415 for other types, 400 for an invalid body. */
export async function readObject(request: IncomingMessage, schema: Schema): Promise<JsonObject> {
  const type = mediaType(request)
  if (type !== protobufType && type !== '' && type !== 'application/json')
    throw unsupportedType('application/json', protobufType)
  const bytes = await readBody(request)
  if (bytes.length === 0) return {}
  if (type === protobufType) return decodeProtobuf(schema, bytes)
  const value = parseJson(bytes)
  if (!isObject(value)) throw badRequest('the request body is no object of the API')
  return value
}

/** A patch and its type; 415 for other content types. */
export async function readPatch(request: IncomingMessage): Promise<{ type: PatchType; patch: Json }> {
  if (mediaType(request) === 'application/apply-patch+yaml')
    throw absentKind('server-side apply (`kubectl apply` works without --server-side)')
  const type = patchTypes[mediaType(request)]
  if (!type) throw unsupportedType(...Object.keys(patchTypes))
  return { type, patch: parseJson(await readBody(request)) }
}

function unsupportedType(...accepted: string[]): StatusError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`
  return new StatusError('UnsupportedMediaType', message)
}

function mediaType(request: IncomingMessage): string {
  return (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

function parseJson(bytes: Buffer): Json {
  try {
    return JSON.parse(String(bytes))
  } catch (error) {
    throw badRequest(`couldn't get version/kind; json parse error: ${messageOf(error)}`)
  }
}
