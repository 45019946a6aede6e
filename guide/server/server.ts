// The guide's web server: lets the user's browser in, serves the page, and passes actions, pushes and terminals on.

import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import type { Duplex } from 'node:stream'
import { build } from 'esbuild'
import { type WebSocket, WebSocketServer } from 'ws'
import * as z from 'zod'
import { projectRoot } from '../../host/layout.ts'
import { closeServer, listenOnLoopback, SAFE_HEADERS } from '../../host/loopback-server.ts'
import { ACTIONS, type ActionName } from '../protocol.ts'
import { contentPolicy, Gate, type Refusal } from './gate.ts'

/** The handler of the server's requests. */
export interface Guide {
  /** Performs an action of the page and returns its reply, if it has one. Throws Error with a sentence for the learner. */
  act(name: ActionName, words: unknown): Promise<object | undefined>
  /** Adds a page that receives pushes. */
  join(page: WebSocket): void
  /** Connects a page to a terminal; false if the id is unknown. */
  attach(terminal: string, page: WebSocket): boolean
}

/** One file of the page, ready to be sent. */
export interface PageFile {
  type: string
  body: Uint8Array
}

export interface GuideServer {
  /** The address to open, with the token. */
  url: string
  close(): Promise<void>
}

/** The longest body of an action, and the longest message of a page (a paste into a terminal). */
const BODY_BYTES = 16 * 1024
const MESSAGE_BYTES = 256 * 1024

const TERMINAL = /^\/terminal\/([a-z0-9-]{1,40})$/

/** Starts the server on 127.0.0.1; `port` 0 chooses a free one. Throws UserError if the port is in use. */
export async function serveGuide(
  guide: Guide,
  files: ReadonlyMap<string, PageFile>,
  port: number,
): Promise<GuideServer> {
  const gate = new Gate()
  const server: Server = createServer({ maxHeaderSize: 16 * 1024 }, (request, response) => {
    void answer(guide, files, gate, request, response)
  })
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_BYTES })
  server.on('upgrade', (request, socket, head) => {
    // Without this, a connection that is reset while it is refused would end the server.
    socket.on('error', () => socket.destroy())
    const refusal = gate.refusal(request, true)
    const terminal = TERMINAL.exec(request.url ?? '')?.[1]
    if (refusal) return refuse(socket, refusal)
    if (request.url !== '/events' && terminal === undefined) return refuse(socket, NOTHING)
    sockets.handleUpgrade(request, socket, head, (page) => {
      page.on('error', () => page.terminate())
      if (terminal === undefined) guide.join(page)
      else if (!guide.attach(terminal, page)) page.close(4004, 'no such terminal')
    })
  })
  gate.listensOn(await listenOnLoopback(server, port, 'guide'))
  return {
    url: gate.url,
    close() {
      for (const page of sockets.clients) page.terminate()
      return closeServer(server)
    },
  }
}

const NOTHING: Refusal = { status: 404, text: 'Nothing here.' }

function refuse(socket: Duplex, { status, text }: Refusal): void {
  const reason = status === 404 ? 'Not Found' : 'Forbidden'
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  )
}

async function answer(
  guide: Guide,
  files: ReadonlyMap<string, PageFile>,
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
  const file = method === 'GET' ? files.get(url) : undefined
  if (file) return void send(200, file.type, file.body)
  try {
    const name = /^\/api\/([a-z-]+)$/.exec(url)?.[1]
    if (method === 'POST' && name !== undefined && Object.hasOwn(ACTIONS, name))
      return void json(200, { ok: true, ...(await act(guide, name as ActionName, request)) })
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

async function act(
  guide: Guide,
  name: ActionName,
  request: IncomingMessage,
): Promise<object | undefined> {
  if (request.headers['content-type'] !== 'application/json')
    throw new BadRequest(415, 'The body of an action is application/json.')
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > BODY_BYTES)
      throw new BadRequest(413, `The body of an action has at most ${BODY_BYTES} bytes.`)
    chunks.push(chunk)
  }
  let body: unknown
  try {
    body = JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    throw new BadRequest(400, 'The body is not JSON.')
  }
  const words = ACTIONS[name].safeParse(body)
  if (!words.success) throw new BadRequest(400, `Action "${name}": ${z.prettifyError(words.error)}`)
  return guide.act(name, words.data)
}

const FOLDER = join(projectRoot, 'guide', 'page')
const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/**
 * The page by path: `/` is guide/page/index.html, `/main.js` and `/main.css` are what esbuild makes of guide/page/main.tsx. Made at
 * each start, as it takes a few hundred milliseconds. Throws when a source of the page has an error.
 */
export async function buildPage(): Promise<ReadonlyMap<string, PageFile>> {
  const { outputFiles } = await build({
    entryPoints: [join(FOLDER, 'main.tsx')],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: FOLDER,
    logLevel: 'silent',
  })
  const html = { type: 'text/html; charset=utf-8', body: readFileSync(join(FOLDER, 'index.html')) }
  const made = outputFiles.map(({ path, contents }): [string, PageFile] => [
    path.slice(FOLDER.length),
    { type: TYPES[extname(path)] ?? 'application/octet-stream', body: contents },
  ])
  return new Map([['/', html], ...made])
}
