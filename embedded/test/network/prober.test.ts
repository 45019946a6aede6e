import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { type GuestProcess, type Machine, processEnd } from '../../machine/machine.ts'
import { httpRequest, Prober } from '../../network/prober.ts'

/** Runs the prober's program on this machine instead of a guest. */
const machine = {
  spawn: async ([program = '', ...args]: readonly string[]) => {
    const child = spawn(program, args)
    const { stdin, stdout, stderr } = child
    const exited = once(child, 'exit').then(([code, signal]) => processEnd(code, signal))
    const process = {
      stdin,
      stdout,
      stderr,
      exited,
      kill: (signal: string) => child.kill(signal as NodeJS.Signals),
    }
    return process as Partial<GuestProcess> as GuestProcess
  },
} as Partial<Machine> as Machine
const prober = new Prober(machine, {})
const closers: (() => void)[] = []
afterAll(async () => {
  await prober.stop()
  for (const close of closers) close()
})

async function listen(onConnection: (socket: Socket) => void): Promise<number> {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

test('an answer is its first line, in any number of pieces; a listener that says nothing delays no other probe', async () => {
  let asked = ''
  const mute = await listen(() => {})
  const slow = await listen((socket) => {
    socket.on('data', (bytes) => {
      asked += bytes.toString()
      if (!asked.endsWith('\r\n\r\n')) return
      socket.write('HTTP/1.1 2')
      setImmediate(() => socket.end('00 OK\r\nServer: x\r\n\r\n'))
    })
  })
  const silent = prober.try('127.0.0.1', mute, 1, httpRequest('/', 'x'))
  const headers = [{ name: 'X-Quote', value: '"\\%41\t$(id)' }]
  const request = httpRequest('/ready', 'shop', headers)
  expect(await prober.try('127.0.0.1', slow, 5, request)).toEqual({
    kind: 'line',
    line: 'HTTP/1.1 200 OK',
  })
  expect(asked).toBe(request)
  expect(await silent).toEqual({ kind: 'silent', line: '' })
})

test('a port is open without a request; a closed one is refused', async () => {
  const port = await listen(() => {})
  const closed = await listen(() => {})
  closers.pop()?.()
  expect(await prober.try('127.0.0.1', port, 5)).toEqual({ kind: 'open', line: '' })
  expect((await prober.try('127.0.0.1', closed, 5)).kind).toBe('refused')
})

test('an endless line, an end without an answer and a host that is no address are no answers', async () => {
  const endless = await listen((socket) =>
    socket.on('data', () => socket.write('x'.repeat(200_000))),
  )
  const ends = await listen((socket) => socket.on('data', () => socket.end()))
  expect((await prober.try('127.0.0.1', endless, 5, 'GET')).kind).toBe('silent')
  expect((await prober.try('127.0.0.1', ends, 5, 'GET')).kind).toBe('silent')
  expect((await prober.try(`127.0.0.1\t${ends}\t5\t\n9`, ends, 5)).kind).toBe('refused')
  expect((await prober.try('localhost', ends, 5)).kind).toBe('refused')
})

test('the end of the program answers what waits, and the next probe starts it again', async () => {
  const mute = await listen(() => {})
  const waiting = prober.try('127.0.0.1', mute, 60, 'GET')
  await prober.try('127.0.0.1', mute, 5)
  await prober.stop()
  expect((await waiting).kind).toBe('silent')
  expect((await prober.try('127.0.0.1', mute, 5)).kind).toBe('open')
})

test('a program that could not be started is started for the next probe', async () => {
  const port = await listen(() => {})
  let attempts = 0
  const busy = {
    spawn: (command: readonly string[]) =>
      attempts++ === 0 ? Promise.reject(new Error('spawn EAGAIN')) : machine.spawn(command),
  } as Partial<Machine> as Machine
  const own = new Prober(busy, {})
  await expect(own.try('127.0.0.1', port, 5)).rejects.toThrow('spawn EAGAIN')
  expect((await own.try('127.0.0.1', port, 5)).kind).toBe('open')
  await own.stop()
})
