import type { IncomingMessage, ServerResponse } from 'node:http'
import { parse, stringify, YAMLParseError } from 'yaml'
import { isObject, type Json, type JsonObject } from './json.ts'
import { decodeProtobuf } from './protobuf.ts'
import type { Schema } from './schema.ts'
import { classOfKind } from './served.ts'
import { badRequest, internalError, notAcceptable, StatusError, unsupportedMediaType } from './status-error.ts'

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

/** Any error as a Status; an error that isn't a StatusError is internal (500). */
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

export type Shape = 'object' | 'table' | 'metadata'

export interface Accepted {
  encoding: 'json' | 'yaml'
  shape: Shape
}

/**
 * The form of the response that a client accepts. Unsupported forms (protobuf, other versions of tables) are skipped
 * if the client also accepts another one; otherwise 406.
 */
export function negotiate(accept: string | undefined): Accepted {
  if (!accept) return { encoding: 'json', shape: 'object' }
  for (const entry of accept.split(',')) {
    const [type = '', ...parameters] = entry.split(';').map((part) => part.trim())
    const encoding = encodings[type]
    if (!encoding) continue
    const values = new Map(parameters.map((part) => part.split('=', 2) as [string, string]))
    const as = values.get('as')
    if (as === undefined) return { encoding, shape: 'object' }
    if (values.get('g') !== 'meta.k8s.io' || values.get('v') !== 'v1') continue
    if (as === 'Table') return { encoding, shape: 'table' }
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') return { encoding, shape: 'metadata' }
  }
  throw notAcceptable(['application/json', 'application/yaml'])
}

const encodings: Record<string, 'json' | 'yaml'> = {
  'application/json': 'json',
  'application/*': 'json',
  '*/*': 'json',
  'application/yaml': 'yaml',
}

/** As in Kubernetes: a request may carry 3 MiB. */
const limit = 3 * 1024 * 1024

const protobufType = 'application/vnd.kubernetes.protobuf'

export type PatchType = 'json' | 'merge' | 'strategic' | 'apply'

const patchTypes: Readonly<Record<string, PatchType>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
  'application/apply-patch+yaml': 'apply',
}

/** The body's bytes; 413 if it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    const bytes: Buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    size += bytes.length
    if (size > limit) throw new StatusError(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${limit}`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

/** The object in a body of JSON, YAML or protobuf; 415 for other types, 400 for an invalid body. */
export async function readObject(request: IncomingMessage, schema: Schema): Promise<JsonObject> {
  const type = mediaType(request)
  if (type === protobufType) return decodeProtobuf(schema, classOfKind, await readBody(request))
  if (type !== '' && type !== 'application/json' && type !== 'application/yaml') {
    throw unsupportedMediaType(['application/json', 'application/yaml', protobufType])
  }
  const value = parseText(String(await readBody(request)), type === 'application/yaml')
  if (!isObject(value)) throw badRequest('the request body is no object of the API')
  return value
}

/** An object, or nothing for an empty body (the options of a DELETE). */
export async function readOptionalObject(request: IncomingMessage, schema: Schema): Promise<JsonObject> {
  const bytes = await readBody(request)
  if (mediaType(request) === protobufType && bytes.length > 0) return decodeProtobuf(schema, classOfKind, bytes)
  const text = String(bytes)
  if (text.trim() === '') return {}
  const value = parseText(text, mediaType(request) === 'application/yaml')
  return isObject(value) ? value : {}
}

/** A patch and its kind; 415 for other content types. */
export async function readPatch(request: IncomingMessage): Promise<{ type: PatchType; patch: Json }> {
  const type = patchTypes[mediaType(request)]
  if (!type) throw unsupportedMediaType(Object.keys(patchTypes))
  return { type, patch: parseText(String(await readBody(request)), type === 'apply') }
}

function mediaType(request: IncomingMessage): string {
  return (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

function parseText(text: string, yaml: boolean): Json {
  try {
    // Aliases are limited, because a few lines of YAML can expand without bound.
    return yaml ? parse(text, { maxAliasCount: 100, schema: 'core' }) : JSON.parse(text)
  } catch (error) {
    if (error instanceof YAMLParseError)
      throw badRequest(`error converting YAML to JSON: ${error.message.split('\n')[0]}`)
    if (error instanceof SyntaxError) throw badRequest(`couldn't get version/kind; json parse error: ${error.message}`)
    throw badRequest(`the request body can't be read: ${String(error)}`)
  }
}
