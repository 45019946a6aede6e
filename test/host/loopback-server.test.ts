// The end of a server does not wait for those who are connected.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { listenOnLoopback, serverEnd } from '../../host/loopback-server.ts'

const clients: Socket[] = []

afterEach(() => {
  for (const client of clients.splice(0)) client.destroy()
})

/** A client that leaves its end of the connection open when the server has closed its own. */
async function connectTo(port: number, request = ''): Promise<Socket> {
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  clients.push(client)
  client.on('error', () => undefined)
  await once(client, 'connect')
  client.write(request)
  return client.resume()
}

const UPGRADE = 'GET /x HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

test.each([
  ['was refused an upgrade, and keeps its end open', true],
  ['was upgraded', false],
])('a client that %s does not keep a server open', async (_what, isRefused) => {
  const server = createServer()
  const end = serverEnd(server)
  server.on('upgrade', (_request, socket) => {
    if (isRefused) socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n')
    else socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
  })
  const client = await connectTo(await listenOnLoopback(server, 0, 'present'), UPGRADE)
  await once(client, isRefused ? 'end' : 'data')
  await end()
  expect(server.listening).toBe(false)
})

test('a client that never begins with TLS does not keep a server open until its deadline', async () => {
  const server = createTlsServer({ handshakeTimeout: 600_000 })
  const end = serverEnd(server)
  const arrived = once(server, 'connection')
  await connectTo(await listenOnLoopback(server, 0, 'room'))
  await arrived
  await end()
  expect(server.listening).toBe(false)
})
