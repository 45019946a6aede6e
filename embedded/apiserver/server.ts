import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ServerTls } from './certificate.ts'
import type { ClusterApi } from './cluster-api.ts'
import { serveMetrics } from './metrics.ts'
import { negotiate } from './negotiation.ts'
import type { NodeBackend } from './node-backend.ts'
import { serveOther } from './other-paths.ts'
import { sendObject, statusOf } from './reply.ts'
import { parsePath } from './request-path.ts'
import { serveResource } from './resource-calls.ts'
import { loadSchema, type Schema } from './schema.ts'
import { absentKind, badRequest, methodNotAllowed, unauthorized, unknownPath } from './status-error.ts'
import { serveUpgrade } from './streaming.ts'
import { serveReview } from './subresources.ts'

/** As long as Go's client, and so kubectl, keeps an idle connection. */
const idleMs = 90_000

export interface ApiServerOptions {
  api: ClusterApi
  backend: NodeBackend
  /** 0, the default, takes any free port. */
  port?: number
  token: string
  tls: Pick<ServerTls, 'cert' | 'key'>
  now?: () => Date
  /** Gets one line for each failure that is the server's own. */
  log?: (line: string) => void
}

export interface ApiServer {
  port: number
  /** Ends all watches, logs and connections. */
  close(): Promise<void>
}

/** Serves the API over HTTPS on 127.0.0.1. Rejects when the port is taken. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  // Ready a moment after the port is open; requests wait for it.
  const schema = loadSchema()
  schema.catch(() => {})
  const closing = new AbortController()
  const server = createServer({ cert: options.tls.cert, key: options.tls.key, ALPNProtocols: ['http/1.1'] })
  // Clients come back to a connection after a while; closing it under them is a request lost.
  server.keepAliveTimeout = idleMs
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('request', (request, response) => {
    serve(options, schema, closing.signal, request, response).catch((error: unknown) => fail(options, response, error))
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    upgrade(options, request, socket, head).catch((error: unknown) => refuseUpgrade(socket, error))
  })
  // Watches and logs stay silent for long; a client that is gone is noticed by TCP.
  server.requestTimeout = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        closing.abort()
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

async function serve(
  options: ApiServerOptions,
  loadingSchema: Promise<Schema>,
  closing: AbortSignal,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  authenticate(request, options.token)
  const url = urlOf(request)
  const target = parsePath(url.pathname)
  const schema = await loadingSchema
  const now = options.now ?? (() => new Date())
  switch (target.is) {
    case 'unknown':
      throw unknownPath()
    case 'other':
      return serveOther({ path: url.pathname, request, response, schema })
    case 'unstored': {
      const { kind, is } = target.resource
      const { api, backend } = options
      if (is === 'absent') throw absentKind(kind)
      if (request.method !== (is === 'review' ? 'POST' : 'GET')) throw methodNotAllowed()
      if (is === 'review') return serveReview(kind, { request, response, schema, now })
      return serveMetrics({ api, backend, response, query: url.searchParams, now, ...target })
    }
    case 'resource': {
      const { resource, namespace, name, subresource } = target
      const { api, backend } = options
      const accepted =
        subresource === 'log' ? ({ encoding: 'json', shape: 'object' } as const) : negotiate(request.headers.accept)
      const query = url.searchParams
      const place = { resource, namespace, name, subresource }
      return serveResource({ api, backend, schema, now, request, response, query, accepted, closing, ...place })
    }
  }
}

async function upgrade(
  { api, backend, token }: ApiServerOptions,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  authenticate(request, token)
  const url = urlOf(request)
  const [target, query] = [parsePath(url.pathname), url.searchParams]
  await serveUpgrade({ api, backend, target, query, request, socket, head })
}

function urlOf(request: IncomingMessage): URL {
  try {
    return new URL(request.url ?? '/', 'https://127.0.0.1')
  } catch {
    throw badRequest(`the path "${request.url}" can't be read`)
  }
}

function authenticate(request: IncomingMessage, token: string): void {
  const given = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
  const digest = (text: string) => createHash('sha256').update(text).digest()
  if (!timingSafeEqual(digest(given), digest(token))) throw unauthorized()
}

function fail({ log }: ApiServerOptions, response: ServerResponse, error: unknown): void {
  const { status, code } = statusOf(error)
  if (code === 500) log?.(`API server: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  if (response.headersSent) response.destroy()
  else sendObject(response, code, status)
}

/** Before the protocol has switched, a refusal is an ordinary answer. */
function refuseUpgrade(socket: Duplex, error: unknown): void {
  const { status, code } = statusOf(error)
  const body = `${JSON.stringify(status)}\n`
  if (!socket.writable) return
  socket.end(
    `HTTP/1.1 ${code} ${status.reason}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
}
