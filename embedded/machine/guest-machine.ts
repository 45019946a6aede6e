import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { PassThrough, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import type { ExecOptions, ExecResult } from '../../host/shell-word.ts'
import { scaledMs } from '../../host/wait.ts'
import {
  chunkBytes,
  creditPayload,
  encodeFrame,
  type Frame,
  FrameDecoder,
  FrameType,
  readCredit,
  SerialLine,
} from './agent-line.ts'
import type { BootOptions, Kernel } from './kernel.ts'
import { bootKernel, consoleTail, describeKernelEnd } from './kernel-process.ts'
import {
  type GuestFile,
  type GuestProcess,
  type Machine,
  type Placement,
  type ProcessEnd,
  processEnd,
  type ScriptPlace,
  type SpawnOptions,
} from './machine.ts'
import { pump, ReceiveWindow, SendWindow, sendData } from './stream-window.ts'

/** Receives the frames of one stream. */
type Listener = (frame: Frame) => void

const bootDeadlineMs = 60_000

/**
 * Only root of the guest can write on the line as if it was the agent: it stops its own kernel
 * instead of filling this process's memory.
 */
const MISUSED = 'was stopped: a program in it wrote on the line that only its agent may use'

/** Processes that a kernel left behind may keep its console open. */
const recordedMs = 2000

/** Boots a kernel and waits until its agent answers, as machineOn does. */
export const startMachine = async (options: BootOptions): Promise<Machine> =>
  machineOn(await bootKernel(options))

/**
 * Waits until the agent of a kernel that boots answers. Rejects with the reason after a minute
 * (times LAB_TIMEOUT_SCALE).
 */
export async function machineOn(kernel: Kernel): Promise<Machine> {
  const machine = new GuestMachine(kernel)
  const deadline = AbortSignal.timeout(scaledMs(bootDeadlineMs))
  const late = once(deadline, 'abort').then(() => 'did not answer in time')
  const reason = await Promise.race([machine.ready, machine.ended, late])
  if (reason === undefined) {
    kernel.booted()
    return machine
  }
  await machine.stop()
  throw new Error(
    `The embedded kernel did not start: it ${reason}. Its console is in "${kernel.consoleFile}".`,
  )
}

class GuestMachine implements Machine {
  readonly ownKernel: boolean
  readonly layer: Kernel['layer']
  readonly ended: Promise<string>
  readonly ready: Promise<undefined>
  readonly #kernel: Kernel
  readonly #line: SerialLine
  readonly #listeners = new Map<number, Listener>()
  /** The port of the host to which connections from the guest are carried. */
  #hostPort = 0
  #nextStream = 1
  #gone: string | undefined

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.ownKernel = kernel.ownKernel
    this.layer = kernel.layer
    this.#line = new SerialLine(kernel.toGuest, kernel.windowBytes)
    this.ready = new Promise((resolve) =>
      this.#listeners.set(0, ({ type }) => {
        if (type === FrameType.ready) resolve(undefined)
      }),
    )
    this.ended = new Promise((resolve) => {
      const end = (why: string) => {
        this.#gone ??= why
        const reason = this.#gone
        for (const [stream, listener] of this.#listeners)
          listener({
            stream,
            type: FrameType.error,
            payload: Buffer.from(`the embedded kernel ${reason}`),
          })
        this.#listeners.clear()
        resolve(reason)
      }
      kernel.process.on('error', (error) => end(`could not be started (${error.message})`))
      kernel.process.on('exit', async () => {
        await Promise.race([kernel.recorded, delay(recordedMs, undefined, { ref: false })])
        end(`ended ${describeKernelEnd(consoleTail(kernel.consoleFile))}`)
      })
    })
    const decoder = new FrameDecoder(chunkBytes)
    kernel.fromGuest.on('data', (bytes: Buffer) => {
      try {
        for (const frame of decoder.push(bytes)) this.#dispatch(frame)
      } catch {
        this.#stopMisuse()
      }
    })
    kernel.toGuest.on('error', () => {})
    kernel.fromGuest.on('error', () => {})
  }

  /** Ends a kernel whose line carries what its agent never sends. */
  #stopMisuse(): void {
    this.#gone ??= MISUSED
    this.#kernel.fromGuest.destroy()
    this.#kernel.end()
  }

  /**
   * Counts what the guest sends of one type of a stream, and returns how it is passed on: `done` is
   * called when it was read.
   */
  #receiving(stream: number, type: number): (bytes: number) => () => void {
    const window = new ReceiveWindow((bytes) =>
      this.#send(stream, FrameType.credit, creditPayload(type, bytes)),
    )
    return (bytes) => {
      if (!window.receive(bytes)) this.#stopMisuse()
      return () => window.read(bytes)
    }
  }

  #dispatch(frame: Frame): void {
    if (frame.type === FrameType.acknowledge) this.#line.acknowledge(frame.payload.readUInt32BE())
    else if (frame.type === FrameType.opened) this.#carry(frame)
    else this.#listeners.get(frame.stream)?.(frame)
  }

  #send(stream: number, type: number, payload: Uint8Array | string = ''): void {
    if (this.#gone === undefined) this.#line.write(encodeFrame(stream, type, payload))
  }

  #open(listener: Listener): number {
    if (this.#gone !== undefined) throw new Error(`the embedded kernel ${this.#gone}`)
    const stream = this.#nextStream++
    this.#listeners.set(stream, listener)
    return stream
  }

  /** Sends a request that is answered by `done` or `error`. */
  #ask(type: number, payload: Uint8Array | string): Promise<void> {
    return new Promise((resolve, reject) => {
      const stream = this.#open(({ type: answer, payload: reason }) => {
        this.#listeners.delete(stream)
        if (answer === FrameType.done) resolve()
        else reject(new Error(reason.toString()))
      })
      this.#send(stream, type, payload)
    })
  }

  spawn(
    command: readonly string[],
    placement: Placement = {},
    options: SpawnOptions = {},
  ): Promise<GuestProcess> {
    return this.#start(FrameType.spawn, { ...placement, ...options, command })
  }

  /** Resolves when a requested process, or a script in a waiting shell, has started. */
  #start(type: number, request: object): Promise<GuestProcess> {
    return new Promise((resolve, reject) => {
      const stdout = new PassThrough()
      const stderr = new PassThrough()
      const window = new SendWindow()
      const stdin = new Writable({
        write: (bytes: Buffer, _encoding, done) => {
          const sending = { line: this.#line, stream, type: FrameType.data, window }
          if (this.#gone !== undefined || sendData(sending, bytes, done)) done()
        },
        final: (done) => {
          this.#send(stream, FrameType.end)
          done()
        },
      })
      let settle: (end: ProcessEnd) => void = () => {}
      const exited = new Promise<ProcessEnd>((done) => {
        settle = done
      })
      const finish = (end: ProcessEnd) => {
        this.#listeners.delete(stream)
        window.release()
        stdout.end()
        stderr.end()
        settle(end)
      }
      const started = ({ pid }: { pid: number }) => {
        const kill = (signal: string) =>
          this.#send(stream, FrameType.kill, JSON.stringify({ signal }))
        const resize = (columns: number, rows: number) =>
          this.#send(stream, FrameType.resize, JSON.stringify({ columns, rows }))
        resolve({ pid, stdin, stdout, stderr, exited, kill, resize })
      }
      const stream = this.#open(({ type: kind, payload }) => {
        switch (kind) {
          case FrameType.data:
            return void stdout.write(payload, readOutput?.(payload.length))
          case FrameType.errorData:
            return void stderr.write(payload, readErrors?.(payload.length))
          case FrameType.credit:
            return window.grant(readCredit(payload).bytes)
          case FrameType.exit:
            return finish(JSON.parse(payload.toString()))
          case FrameType.started:
            return started(JSON.parse(payload.toString()))
          default:
            reject(new Error(payload.toString()))
            return finish(processEnd(null, 'SIGKILL'))
        }
      })
      const [readOutput, readErrors] = [FrameType.data, FrameType.errorData].map((kind) =>
        this.#receiving(stream, kind),
      )
      this.#send(stream, type, JSON.stringify(request))
    })
  }

  async run(
    command: readonly string[],
    placement: Placement = {},
    { stdin, timeoutMs }: ExecOptions = {},
  ): Promise<ExecResult> {
    const process = await this.spawn(command, placement, { noInput: stdin === undefined })
    if (stdin !== undefined) process.stdin.end(stdin)
    return this.#result(process, `"${command.join(' ')}"`, timeoutMs)
  }

  async script(
    script: string,
    { pid, netns }: ScriptPlace = {},
    options: { timeoutMs?: number } = {},
  ) {
    return this.#result(
      await this.#start(FrameType.script, { pid, netns, script }),
      'a script',
      options.timeoutMs,
    )
  }

  async #result(process: GuestProcess, what: string, timeoutMs?: number): Promise<ExecResult> {
    let late = false
    const end = () => {
      late = true
      process.kill('SIGKILL')
    }
    const timer = timeoutMs === undefined ? undefined : setTimeout(end, timeoutMs)
    const [stdout, stderr, { exitCode }] = await Promise.all([
      text(process.stdout),
      text(process.stderr),
      process.exited,
    ])
    clearTimeout(timer)
    if (this.#gone !== undefined) throw new Error(`the embedded kernel ${this.#gone}`)
    if (late) throw new Error(`${what} did not end within ${timeoutMs} ms`)
    return { exitCode, stdout, stderr }
  }

  async write(files: readonly GuestFile[]): Promise<void> {
    await Promise.all(
      files.map(({ content, ...file }) => {
        const head = Buffer.from(`${JSON.stringify(file)}\0`)
        return this.#ask(FrameType.write, Buffer.concat([head, Buffer.from(content)]))
      }),
    )
  }

  async forward(netns: string, address: string, port: number, hostPort: number): Promise<void> {
    const socket = `/run/forward-${netns}-${port}`
    this.#hostPort = hostPort
    await this.#ask(FrameType.forward, JSON.stringify({ socket }))
    const listen = `TCP-LISTEN:${port},bind=${address},fork,reuseaddr,backlog=64`
    const relay = await this.spawn(['socat', listen, `UNIX-CONNECT:${socket}`], { netns })
    relay.stdout.resume()
    relay.stderr.resume()
  }

  /** Connects a connection from the guest with a TCP port of the host's loopback interface. */
  #carry({ stream }: Frame): void {
    const socket: Socket = connect({ host: '127.0.0.1', port: this.#hostPort, allowHalfOpen: true })
    const window = new SendWindow()
    const read = this.#receiving(stream, FrameType.data)
    this.#listeners.set(stream, ({ type, payload: bytes }) => {
      if (type === FrameType.data) socket.write(bytes, read(bytes.length))
      else if (type === FrameType.credit) window.grant(readCredit(bytes).bytes)
      else if (type === FrameType.end) socket.end()
      else socket.destroy()
    })
    pump({ line: this.#line, stream, type: FrameType.data, window }, socket)
    socket.on('end', () => this.#send(stream, FrameType.end))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      if (this.#listeners.delete(stream)) this.#send(stream, FrameType.exit)
    })
  }

  async stop(): Promise<void> {
    this.#kernel.end()
    await this.ended
  }
}
