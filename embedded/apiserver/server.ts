import { createHash, timingSafeEqual } from 'node:crypto'
import { type IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Api } from './api.ts'
import { type ApiCall, flag, type NodeBackend } from './api-call.ts'
import type { ServerTls } from './certificate.ts'
import { serveDocument } from './documents.ts'
import { readObject, sendObject, wantsTable } from './http-messages.ts'
import { metricsOf } from './metrics.ts'
import { answerList, answerWatch, found, shaped } from './read-objects.ts'
import { parsePath, type ResourceTarget } from './resource.ts'
import { reviewOf } from './reviews.ts'
import type { Schema } from './schema.ts'
import { asStatusError, badRequest, methodNotAllowed, StatusError } from './status-error.ts'
import { serveUpgrade } from './streaming.ts'
import type { Upgrade } from './streaming-protocols.ts'
import {
  evict,
  runNodeScript,
  scaleOf,
  streamPodLog,
  updateScale,
  waitForSyncedNode,
} from './subresources.ts'
import { createObject, deleteObject, updateObject } from './write-objects.ts'

const origin = 'https://127.0.0.1'

/** The time for which Go's HTTP client, and therefore kubectl, keeps an idle connection. */
const idleMs = 90_000

export interface ApiServerOptions {
  api: Api
  backend: NodeBackend
  schema: Schema
  token: string
  tls: ServerTls
  /** Receives one line for each internal error. */
  log?: (line: string) => void
}

export interface ApiServer {
  port: number
  /** Ends all watches, logs and connections. */
  close(): Promise<void>
}

/**
 * The limit of a request's line and headers, as in genuine API servers (MaxHeaderBytes): the
 * command of an exec is in the line.
 */
const HEADER_BYTES = 1 << 20

/** Serves the API over HTTPS on a free port of 127.0.0.1. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const server = createServer({
    ...options.tls,
    ALPNProtocols: ['http/1.1'],
    maxHeaderSize: HEADER_BYTES,
  })
  // Clients reuse idle connections; closing one too early would lose a request.
  server.keepAliveTimeout = idleMs
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('request', (request, response) => {
    serve(options, request, response).catch((error: unknown) =>
      replyError(options, response, error),
    )
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    upgrade(options, { request, socket, head }).catch((error: unknown) => {
      if (!socket.writable) return
      // Before the protocol has switched, a refusal is an ordinary answer.
      const response = new ServerResponse(request)
      response.assignSocket(socket as Socket)
      response.shouldKeepAlive = false
      response.on('finish', () => socket.end())
      replyError(options, response, error)
    })
  })
  // Watches and logs may be idle for a long time; TCP detects clients that have gone.
  server.requestTimeout = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

async function serve(
  { api, backend, schema, token }: ApiServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { target, path, query } = admit(request, token)
  if (target.is === 'document') return serveDocument(request, response, path)
  if (target.is === 'metrics') {
    if (request.method !== 'GET') throw methodNotAllowed()
    return sendObject(response, 200, await metricsOf(api, backend, target, query))
  }
  if (target.is === 'review') {
    if (request.method !== 'POST') throw methodNotAllowed()
    return sendObject(response, 201, reviewOf(target, await readObject(request, schema)))
  }
  const asTable = target.subresource !== 'log' && wantsTable(request.headers.accept)
  const handle = handlerOf(target, request.method)
  const body = await handle({ ...target, api, backend, schema, request, response, query, asTable })
  if (body) sendObject(response, request.method === 'POST' ? 201 : 200, body)
}

async function upgrade({ api, backend, token }: ApiServerOptions, asked: Upgrade): Promise<void> {
  const { target, query } = admit(asked.request, token)
  await serveUpgrade({ api, backend, target, query, ...asked })
}

/** The target of a request. Throws 401 without the token, 404 for an unknown path. */
function admit({ url = '/', headers }: IncomingMessage, token: string) {
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? ''
  const digest = (text: string) => createHash('sha256').update(text).digest()
  if (!timingSafeEqual(digest(bearer), digest(token)))
    throw new StatusError('Unauthorized', 'Unauthorized')
  if (!URL.canParse(url, origin)) throw badRequest(`the path "${url}" can't be read`)
  const { pathname: path, searchParams: query } = new URL(url, origin)
  return { target: parsePath(path), path, query }
}

function replyError({ log }: ApiServerOptions, response: ServerResponse, error: unknown): void {
  const { status, code } = asStatusError(error)
  if (code === 500)
    log?.(`API server: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  if (response.headersSent) response.destroy()
  else sendObject(response, code, status)
}

/** Returns the body of an answer, or undefined if it writes the answer itself. */
type Handler = (call: ApiCall) => object | undefined | Promise<object | undefined>

const ofObject: Readonly<Record<string, Handler>> = {
  GET: (call) => (flag(call.query, 'watch') ? answerWatch(call) : shaped(call, found(call))),
  PUT: updateObject,
  PATCH: updateObject,
}

/** The handlers by method: of a list, of one object, and of each subresource. */
const handlers: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  list: {
    GET: (call) => (flag(call.query, 'watch') ? answerWatch(call) : answerList(call)),
    POST: createObject,
  },
  object: { ...ofObject, DELETE: deleteObject },
  status: ofObject,
  ephemeralcontainers: ofObject,
  scale: { GET: (call) => scaleOf(found(call)), PUT: updateScale, PATCH: updateScale },
  log: { GET: streamPodLog },
  script: { POST: runNodeScript },
  synced: { GET: waitForSyncedNode },
  eviction: { POST: evict },
}

/** The handler of a request for a resource. Throws 405 if the method is not supported. */
function handlerOf(
  { subresource, name, resource, namespace }: ResourceTarget,
  method = 'GET',
): Handler {
  const own = handlers[subresource ?? (name === undefined ? 'list' : 'object')]
  if (!own)
    throw badRequest(
      `unable to upgrade: the ${subresource} subresource needs an upgraded connection (WebSocket)`,
    )
  const handler = own[method]
  const lacksNamespace = resource.namespaced && namespace === undefined && method === 'POST'
  const isReadOnly = resource.asRead !== undefined && method !== 'GET'
  if (!handler || lacksNamespace || isReadOnly) throw methodNotAllowed()
  return handler
}
