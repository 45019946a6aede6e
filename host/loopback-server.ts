// A web server for the user of this machine alone: the same rules for the slides and for the guide's page.

import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import { UserError } from './main.ts'

/** A secret for an address or a cookie that no other user and no page can guess. */
export const newToken = (): string => randomBytes(16).toString('hex')

/** Headers of every reply: nothing is kept, guessed, or told to other sites. */
export const SAFE_HEADERS = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const

/** Whether a Host header names this machine, so that no page can reach the server by a name of its own (DNS rebinding). */
export const isLoopbackHost = (host: string | undefined, port: number): boolean =>
  host === `127.0.0.1:${port}` || host === `localhost:${port}`

/** The port that `PORT` asks for; 0, a free one, by default. Throws UserError with the right values. */
export function wishedPort(target: string, wish = process.env.PORT ?? ''): number {
  if (/^\d{0,5}$/.test(wish) && Number(wish) <= 65535) return Number(wish)
  throw new UserError(`"${wish}" is not a port; choose one from 1 to 65535, for example: make ${target} PORT=8080`)
}

/** Listens on 127.0.0.1 only and returns the port. Throws UserError if the port can't be used. */
export function listenOnLoopback(server: Server, port: number, target: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', ({ message }) =>
      reject(
        new UserError(`Port ${port} can't be used (${message}); leave PORT= out to use a free one: make ${target}`),
      ),
    )
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : port)
    })
  })
}

/** Ends all connections and stops listening. */
export function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve) => {
    server.close(() => resolve())
  })
}

/** Resolves when this process is told to end: by Ctrl-C, by a signal, or because its terminal was closed. */
export function untilToldToEnd(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve())
  })
}
