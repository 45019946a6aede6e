import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { extname, join } from 'node:path'

const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html; charset=utf-8', '.pdf': 'application/pdf' }

export interface SlideServer {
  /** The URL of the decks; the path contains the token. */
  url: string
  close: () => Promise<void>
}

/**
 * Serves the pages of a folder on 127.0.0.1 only. Without the token in the path the answer is 404, as for a missing page;
 * other Host headers are refused, so that a remote page can't reach it through DNS rebinding. `port` 0 selects a free one.
 * Throws Error if the port is in use.
 */
export async function serveSlides(folder: string, port = 0): Promise<SlideServer> {
  const token = randomBytes(16).toString('hex')
  const server = createServer((request, response) => {
    void answer(folder, token, request.method, request.headers.host, request.url, response)
  })
  const listening = await listen(server, port)
  return {
    url: `http://127.0.0.1:${listening}/${token}/`,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => {
        server.close(() => resolve())
      })
    },
  }
}

async function answer(
  folder: string,
  token: string,
  method: string | undefined,
  host: string | undefined,
  url: string | undefined,
  response: ServerResponse,
) {
  const name = pageName(token, url)
  const known = /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(host ?? '')
  const body =
    known && method === 'GET' && name !== undefined
      ? await readFile(join(folder, name)).catch(() => undefined)
      : undefined
  if (body === undefined || name === undefined) {
    response
      .writeHead(404, { 'content-type': 'text/plain; charset=utf-8' })
      .end('Not found. Open the address that make present printed.\n')
    return
  }
  response
    .writeHead(200, {
      'content-type': TYPES[extname(name)],
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    })
    .end(body)
}

/** The file that a path names below the token; only pages and PDFs of this folder. */
function pageName(token: string, url: string | undefined): string | undefined {
  const [path = ''] = (url ?? '').split('?')
  if (!path.startsWith(`/${token}/`)) return undefined
  const name = path.slice(token.length + 2) || 'index.html'
  return /^[a-z0-9-]+\.(html|pdf)$/.test(name) ? name : undefined
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : port)
    })
  })
}
