import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough, Writable } from 'node:stream'
import { type RawData, type WebSocket, WebSocketServer } from 'ws'
import { type ExecOptions, type ExecTransport, parseSize } from './exec-session.ts'

/** Channels of the remote command protocol: the first byte of every message. 255 closes one (v5 only). */
const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 }

const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io']

const sockets = new WebSocketServer({
  noServer: true,
  handleProtocols: (offered) => protocols.find((protocol) => offered.has(protocol)) ?? false,
})

export function isWebSocket(request: IncomingMessage): boolean {
  return (request.headers.upgrade ?? '').toLowerCase() === 'websocket'
}

/** Takes an upgrade over as a WebSocket with Kubernetes' channels. */
export function acceptWebSocket(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: ExecOptions,
): Promise<ExecTransport> {
  return new Promise((resolve, reject) => {
    socket.once('close', () => reject(new Error('the client went away during the upgrade')))
    sockets.handleUpgrade(request, socket, head, (client) => resolve(transportOver(client, options)))
  })
}

function transportOver(client: WebSocket, options: ExecOptions): ExecTransport {
  const stdin = new PassThrough()
  const resizes = new Set<(columns: number, rows: number) => void>()
  client.on('message', (data: RawData) => {
    const message = bytesOf(data)
    const content = message.subarray(1)
    switch (message[0]) {
      case channel.stdin:
        // A client that sends faster than the command reads is slowed down by TCP.
        if (content.length > 0 && !stdin.write(content)) {
          client.pause()
          stdin.once('drain', () => client.resume())
        }
        break
      case channel.resize: {
        const size = parseSize(String(content))
        if (size) for (const listener of resizes) listener(...size)
        break
      }
      case channel.close:
        if (content[0] === channel.stdin) stdin.end()
        break
    }
  })
  client.on('error', () => client.terminate())
  client.on('close', () => stdin.end())
  // As Kubernetes does: an empty message on each output says that the streams are up.
  client.send(Buffer.from([channel.stdout]))
  return {
    ...(options.stdin && { stdin }),
    ...(options.stdout && { stdout: output(client, channel.stdout) }),
    ...(options.stderr && { stderr: output(client, channel.stderr) }),
    onResize: (listener) => resizes.add(listener),
    onGone: (listener) => client.on('close', listener),
    finish(status) {
      client.send(Buffer.concat([Buffer.from([channel.status]), Buffer.from(JSON.stringify(status))]))
      client.close(1000)
    },
  }
}

function output(client: WebSocket, number: number): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (client.readyState === client.OPEN) {
        client.send(Buffer.concat([Buffer.from([number]), chunk]), (error) => done(error))
      } else done()
    },
  })
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}
