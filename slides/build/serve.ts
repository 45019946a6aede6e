import { readFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import {
  isLoopbackHost,
  listenOnLoopback,
  newToken,
  SAFE_HEADERS,
  serverEnd,
} from '../../host/loopback-server.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.pdf': 'application/pdf',
}

export interface SlideServer {
  /** The URL of the decks; the path contains the token. */
  url: string
  close: () => Promise<void>
}

/**
 * Serves the pages of a folder on 127.0.0.1 only. Without the token in the path the answer is 404,
 * as for a missing page; other Host headers are refused, so that a remote page can't reach it
 * through DNS rebinding. `port` 0 selects a free one. Throws Refusal if the port is in use.
 */
export async function serveSlides(folder: string, port = 0): Promise<SlideServer> {
  const token = newToken()
  let listening = port
  const server = createServer((request, response) => {
    const name = isLoopbackHost(request.headers.host, listening)
      ? pageName(token, request.url)
      : undefined
    void answer(folder, request.method === 'GET' ? name : undefined, response)
  })
  const close = serverEnd(server)
  listening = await listenOnLoopback(server, port, 'present')
  return { url: `http://127.0.0.1:${listening}/${token}/`, close }
}

async function answer(folder: string, name: string | undefined, response: ServerResponse) {
  const body =
    name === undefined ? undefined : await readFile(join(folder, name)).catch(() => undefined)
  if (body === undefined || name === undefined) {
    response
      .writeHead(404, { 'content-type': 'text/plain; charset=utf-8' })
      .end('Not found. Open the address that make present printed.\n')
    return
  }
  response.writeHead(200, { ...SAFE_HEADERS, 'content-type': TYPES[extname(name)] }).end(body)
}

/** The file that a path names below the token; only pages and PDFs of this folder. */
function pageName(token: string, url: string | undefined): string | undefined {
  const [path = ''] = (url ?? '').split('?')
  if (!path.startsWith(`/${token}/`)) return undefined
  const name = path.slice(token.length + 2) || 'index.html'
  return /^[a-z0-9-]+\.(html|pdf)$/.test(name) ? name : undefined
}
