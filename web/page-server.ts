// A web server for one page on this machine: lets the user's browser in, serves the page's files,
// performs its actions, and passes WebSockets on.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import * as z from 'zod'
import { listenOnLoopback, SAFE_HEADERS, serverEnd } from '../host/loopback-server.ts'
import { readBodyUpTo } from '../host/request-body.ts'
import { contentPolicy, Gate, type RefusedRequest } from './gate.ts'
import type { PageFiles } from './page-files.ts'

/** What a page's server does besides serving files. */
export interface PageHandler {
  /** The make target that starts the server: `guide`. */
  target: string
  files: PageFiles
  /** The schemas of the arguments of POST /api/NAME. */
  actions: Readonly<Record<string, z.ZodType>>
  /**
   * Performs an action and returns the fields of its reply. Throws Error with a sentence for the
   * user of the page.
   */
  perform(name: string, input: unknown): Promise<object | undefined>
  /** The handler of WebSockets of a path; undefined if there is none. */
  socketAt(path: string): ((page: WebSocket) => void) | undefined
}

export interface PageServer {
  /** The address to open, with the token. */
  url: string
  close(): Promise<void>
}

/** The longest body of an action, and the longest message of a page (a paste into a terminal). */
const BODY_BYTES = 16 * 1024
const MESSAGE_BYTES = 256 * 1024

/**
 * Starts the server on 127.0.0.1; `port` 0 chooses a free one. Throws Refusal if the port is in
 * use.
 */
export async function servePage(handler: PageHandler, port: number): Promise<PageServer> {
  const gate = new Gate(handler.target)
  const server: Server = createServer({ maxHeaderSize: 16 * 1024 }, (request, response) => {
    void answer(handler, gate, request, response)
  })
  const end = serverEnd(server)
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_BYTES })
  server.on('upgrade', (request, socket, head) => {
    // Without this, a connection that is reset while it is refused would end the server.
    socket.on('error', () => socket.destroy())
    const refusal = gate.refusal(request, true)
    if (refusal) return refuseUpgrade(socket, refusal)
    const take = handler.socketAt(request.url ?? '')
    if (!take) return refuseUpgrade(socket, NOTHING)
    sockets.handleUpgrade(request, socket, head, (page) => {
      page.on('error', () => page.terminate())
      take(page)
    })
  })
  gate.listensOn(await listenOnLoopback(server, port, handler.target))
  return {
    url: gate.url,
    close: end,
  }
}

const NOTHING: RefusedRequest = { status: 404, text: 'Nothing here.' }

function refuseUpgrade(socket: Duplex, { status, text }: RefusedRequest): void {
  const reason = status === 404 ? 'Not Found' : 'Forbidden'
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  )
}

async function answer(
  handler: PageHandler,
  gate: Gate,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method, url = '', headers } = request
  const strict = method !== 'GET'
  const send = (status: number, type: string, body: string | Uint8Array) =>
    response
      .writeHead(status, {
        ...SAFE_HEADERS,
        'content-type': type,
        'content-security-policy': contentPolicy(headers.host ?? ''),
        'cross-origin-resource-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
        // The rest of a refused body is not read.
        ...(status >= 400 && strict ? { connection: 'close' } : {}),
      })
      .end(body)
  const json = (status: number, value: object) =>
    send(status, 'application/json', JSON.stringify(value))
  const admission = gate.admission(request)
  if (admission) return void response.writeHead(303, admission).end()
  const refusal = gate.refusal(request, strict)
  if (refusal) return void send(refusal.status, 'text/plain; charset=utf-8', `${refusal.text}\n`)
  const file = method === 'GET' ? handler.files.get(url) : undefined
  if (file) return void send(200, file.type, file.body)
  try {
    const name = /^\/api\/([a-z-]+)$/.exec(url)?.[1]
    if (method === 'POST' && name !== undefined && Object.hasOwn(handler.actions, name))
      return void json(200, { ok: true, ...(await runPageAction(handler, name, request)) })
    send(404, 'text/plain; charset=utf-8', `${NOTHING.text}\n`)
  } catch (error) {
    const status = error instanceof BadRequest ? error.status : 409
    json(status, { error: error instanceof Error ? error.message : String(error) })
  }
}

class BadRequest extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

async function runPageAction(
  { actions, perform }: PageHandler,
  name: string,
  request: IncomingMessage,
): Promise<object | undefined> {
  if (request.headers['content-type'] !== 'application/json')
    throw new BadRequest(415, 'The body of an action is application/json.')
  const bytes = await readBodyUpTo(BODY_BYTES, request)
  if (!bytes) throw new BadRequest(413, `The body of an action has at most ${BODY_BYTES} bytes.`)
  let body: unknown
  try {
    body = JSON.parse(bytes.toString())
  } catch {
    throw new BadRequest(400, 'The body is not JSON.')
  }
  const input = actions[name]?.safeParse(body)
  if (!input?.success)
    throw new BadRequest(400, `Action "${name}": ${input && z.prettifyError(input.error)}`)
  return perform(name, input.data)
}
