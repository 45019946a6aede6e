// Web servers for the user of this machine only, for the slides and the guide's page.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Refusal, reasonOf } from './main.ts'

/** A secret for a URL or a cookie that no other user or page can guess. */
export const newToken = (): string => randomBytes(16).toString('hex')

/** Headers of every response: no caching, no content sniffing, no referrer. */
export const SAFE_HEADERS = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const

/**
 * Whether a Host header names this machine, so that a remote page cannot reach the server with its
 * own name (DNS rebinding).
 */
export const isLoopbackHost = (host: string | undefined, port: number): boolean =>
  host === `127.0.0.1:${port}` || host === `localhost:${port}`

/** The port in `PORT`; default 0, a free one. Throws Refusal with the valid values. */
export function requestedPort(target: string, requested = process.env.PORT ?? ''): number {
  if (/^\d{0,5}$/.test(requested) && Number(requested) <= 65535) return Number(requested)
  throw new Refusal(
    `"${requested}" is not a port; choose one from 1 to 65535, for example: make ${target} PORT=8080`,
  )
}

/** Listens on 127.0.0.1 only and returns the port. Throws Refusal if the port can't be used. */
export async function listenOnLoopback(
  server: Server,
  port: number,
  target: string,
): Promise<number> {
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new Refusal(
      `Port ${port} can't be used (${reasonOf(error)}); leave PORT= out to use a free one: make ${target}`,
    )
  }
  return (server.address() as AddressInfo).port
}

/**
 * Follows the connections of a server that does not listen yet. The returned function ends them all
 * and stops listening. Node's `closeAllConnections` leaves those that were upgraded, whose other
 * end is still open after a refusal, or that negotiate TLS, and `close` waits for them.
 */
export function serverEnd(server: Server): () => Promise<void> {
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      for (const socket of open) socket.destroy()
    })
}

/**
 * Resolves when this process is terminated: by Ctrl-C, by a signal, or because its terminal was
 * closed.
 */
export async function untilTerminated(): Promise<void> {
  await Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal)))
}
