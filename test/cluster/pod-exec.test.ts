import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import { execInPod } from '../../cluster/context/pod-exec.ts'
import { KubeConfig } from '../../cluster/kubernetes.ts'

const pod = { namespace: 'default', name: 'client' }
const config = new KubeConfig()
let server: Server
/** Accepts the connection that waits. */
let accept: () => Promise<WebSocket>
let isAsked: Promise<void>

beforeEach(async () => {
  server = createServer()
  const sockets = new WebSocketServer({ noServer: true })
  isAsked = new Promise((asked) => {
    server.on('upgrade', (request, socket, head) => {
      accept = () => new Promise((resolve) => sockets.handleUpgrade(request, socket, head, resolve))
      asked()
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  config.loadFromClusterAndUser(
    { name: 'x', server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
    { name: 'x' },
  )
})
afterEach(() => void server.close())

const status = (object: object) => Buffer.from(`\x03${JSON.stringify(object)}`)
const failure = (code: string) => ({
  status: 'Failure',
  details: { causes: [{ reason: 'ExitCode', message: code }] },
})

test('exit code and output are those of the command', async () => {
  const running = execInPod({ config }, pod, ['cat'], { stdin: 'input' })
  await isAsked
  const socket = await accept()
  const [input] = await once(socket, 'message')
  socket.send(Buffer.from(`\x01${String(input).slice(1)} is back`))
  socket.send(status(failure('7')))
  expect(await running).toEqual({ exitCode: 7, stdout: 'input is back', stderr: '' })
  await once(socket, 'close')
})

test('a connection that is lost, or refused, is no exit code', async () => {
  const lost = execInPod({ config }, pod, ['true'])
  await isAsked
  ;(await accept()).terminate()
  await expect(lost).rejects.toThrow(
    'A command could not be run in Pod "client": the connection was lost.',
  )
})

test('a connection that opens after the deadline is closed', async () => {
  const late = execInPod({ config }, pod, ['true'], { timeoutMs: 50 })
  await expect(late).rejects.toThrow(
    'A command could not be run in Pod "client": it did not finish in time.',
  )
  await isAsked
  await once(await accept(), 'close')
})

test('a command that starts after the deadline is not given its input', async () => {
  const late = execInPod({ config }, pod, ['sh'], { stdin: 'rm it', timeoutMs: 50 })
  await expect(late).rejects.toThrow('it did not finish in time')
  await isAsked
  const socket = await accept()
  const received: unknown[] = []
  socket.on('message', (data) => received.push(String(data)))
  await once(socket, 'close')
  expect(received).toEqual([])
})
