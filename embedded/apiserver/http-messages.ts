import type { IncomingMessage, ServerResponse } from 'node:http'
import { readBodyUpTo } from '../../host/request-body.ts'
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { jsonPatch, mergePatch } from './patches.ts'
import { decodeProtobuf } from './protobuf.ts'
import type { Schema } from './schema.ts'
import { absentKind, badRequest, messageOf, StatusError } from './status-error.ts'
import { strategicMerge } from './strategic-merge.ts'

/** Writes one object as the whole answer. */
export function sendObject(response: ServerResponse, code: number, body: unknown): void {
  sendBody(response, code, 'application/json', `${JSON.stringify(body)}\n`)
}

export function sendBody(
  response: ServerResponse,
  code: number,
  type: string,
  body: string | Uint8Array,
): void {
  response.writeHead(code, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-cache, private',
  })
  response.end(body)
}

/** Adds warnings to a later answer, which kubectl shows (RFC 7234 5.5, code 299). */
export function warn(response: ServerResponse, texts: readonly string[]): void {
  const quoted = texts.map((text) => `299 - ${JSON.stringify(text)}`)
  // Header text is limited to Latin-1 without control characters.
  response.setHeader('warning', quoted.join(', ').replaceAll(/[^\x20-\x7e]/g, '?'))
}

/** As in Kubernetes: a request may carry 3 MiB. */
const limit = 3 * 1024 * 1024

const protobufType = 'application/vnd.kubernetes.protobuf'

/** Whether a client prefers objects as a table. Throws 406 if it accepts neither that nor JSON. */
export function wantsTable(accept = '*/*'): boolean {
  for (const entry of accept.replaceAll(' ', '').split(',')) {
    const [type = '', ...parameters] = entry.split(';')
    if (!['application/json', 'application/*', '*/*'].includes(type)) continue
    if (!parameters.some((parameter) => parameter.startsWith('as='))) return false
    if (['as=Table', 'v=v1', 'g=meta.k8s.io'].every((parameter) => parameters.includes(parameter)))
      return true
  }
  throw new StatusError(
    'NotAcceptable',
    'only the following media types are accepted: application/json',
  )
}

type PatchFunction = (target: JsonObject, patch: Json, schema: Schema, typeName: string) => Json

const patches: Readonly<Record<string, PatchFunction>> = {
  'application/json-patch+json': jsonPatch,
  'application/merge-patch+json': mergePatch,
  'application/strategic-merge-patch+json': strategicMerge,
}

/** The body's bytes; 413 if it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const bytes = await readBodyUpTo(limit, request)
  if (bytes) return bytes
  throw new StatusError('RequestEntityTooLarge', `Request entity too large: limit is ${limit}`)
}

/**
 * The object in a body of JSON or protobuf, empty for an empty body; 415 for other types, 400 for
 * an invalid body.
 */
export async function readObject(request: IncomingMessage, schema: Schema): Promise<JsonObject> {
  const type = mediaType(request)
  if (type !== protobufType && type !== '' && type !== 'application/json')
    throw unsupportedType('application/json', protobufType)
  const bytes = await readBody(request)
  if (bytes.length === 0) return {}
  if (type === protobufType) return decodeProtobuf(schema, bytes)
  const value = parseBody(bytes)
  if (!isJsonObject(value)) throw badRequest('the request body is no object of the API')
  return value
}

/** The patch of a value of a type; 415 for other content types. */
export async function readPatch(
  request: IncomingMessage,
  schema: Schema,
  typeName: string,
): Promise<(target: JsonObject) => Json> {
  if (mediaType(request) === 'application/apply-patch+yaml')
    throw absentKind('server-side apply (`kubectl apply` works without --server-side)')
  const apply = patches[mediaType(request)]
  if (!apply) throw unsupportedType(...Object.keys(patches))
  const patch = parseBody(await readBody(request))
  return (target) => apply(target, patch, schema, typeName)
}

function unsupportedType(...accepted: string[]): StatusError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`
  return new StatusError('UnsupportedMediaType', message)
}

function mediaType(request: IncomingMessage): string {
  return (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/**
 * Of Go's decoder of JSON (maxNestingDepth of encoding/json/scanner.go); deeper values would
 * exhaust the stack.
 */
const deepest = 10_000

/** Whether arrays and objects are nested deeper than allowed; also of text that is no JSON. */
function isTooDeep(text: string): boolean {
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length && depth <= deepest; at++) {
    const character = text[at]
    if (character === '"') isQuoted = !isQuoted
    else if (isQuoted) at += character === '\\' ? 1 : 0
    else if (character === '[' || character === '{') depth++
    else if (character === ']' || character === '}') depth--
  }
  return depth > deepest
}

function parseBody(bytes: Buffer): Json {
  try {
    if (bytes.length > deepest && isTooDeep(String(bytes))) throw new Error('exceeded max depth')
    return JSON.parse(String(bytes))
  } catch (error) {
    throw badRequest(`couldn't get version/kind; json parse error: ${messageOf(error)}`)
  }
}
