// Access to a page's server on this machine: only a browser of this user that opened the printed
// address, and only the server's own page in it.

import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { isLoopbackHost, newToken, SAFE_HEADERS } from '../host/loopback-server.ts'

const OPEN = '/open/'

/** The reason why a request is refused; it is the text of the reply. */
export interface RefusedRequest {
  status: 403 | 404
  text: string
}

export class Gate {
  readonly #token = newToken()
  readonly #secret = newToken()
  readonly #target: string
  #port = 0

  /** `target` is the make target that printed the address: `guide`. */
  constructor(target: string) {
    this.#target = target
  }

  /** Called once the port is known. */
  listensOn(port: number): void {
    this.#port = port
  }

  /**
   * The address to print. Its token is exchanged for a cookie and leaves the address bar at once.
   */
  get url(): string {
    return `http://127.0.0.1:${this.#port}${OPEN}${this.#token}`
  }

  /**
   * The headers that redirect a browser from the printed address to the page; undefined for other
   * requests.
   */
  admission(request: IncomingMessage): OutgoingHttpHeaders | undefined {
    const { method, url = '', headers } = request
    const isHere = method === 'GET' && isLoopbackHost(headers.host, this.#port)
    if (!isHere || !url.startsWith(OPEN) || !isSecret(url.slice(OPEN.length), this.#token))
      return undefined
    return {
      ...SAFE_HEADERS,
      location: '/',
      'set-cookie': `${this.#cookie}=${this.#secret}; Path=/; HttpOnly; SameSite=Strict`,
    }
  }

  /**
   * Why a request is not from this page in a browser that was let in; undefined if it is. `strict`
   * for requests that change something, and for WebSockets.
   */
  refusal({ headers }: IncomingMessage, strict: boolean): RefusedRequest | undefined {
    const { host, origin, cookie = '' } = headers
    if (!isLoopbackHost(host, this.#port)) return { status: 404, text: 'Nothing here.' }
    const isForeign = origin === undefined ? strict : origin !== `http://${host}`
    const site = headers['sec-fetch-site'] ?? 'same-origin'
    if (isForeign || (site !== 'same-origin' && site !== 'none'))
      return { status: 403, text: `Only the page of make ${this.#target} may ask for this.` }
    const cookies = cookie.split('; ').map((pair) => pair.split('='))
    if (
      cookies.some(([name, value = '']) => name === this.#cookie && isSecret(value, this.#secret))
    )
      return undefined
    return { status: 403, text: `Open the address that make ${this.#target} printed.` }
  }

  /** Cookies do not distinguish ports, so each server uses its own name. */
  get #cookie(): string {
    return `${this.#target}-${this.#port}`
  }
}

/** Whether a text is a secret, compared in constant time. */
export function isSecret(text: string, secret: string): boolean {
  const [one, other] = [Buffer.from(text), Buffer.from(secret)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/**
 * What the page may load and connect to. xterm.js writes its colours and sizes into style elements.
 */
export const contentPolicy = (host: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self' ws://${host}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
