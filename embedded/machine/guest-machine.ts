import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { PassThrough, Writable } from 'node:stream'
import { timeoutScale } from '../../host/wait.ts'
import { bootKernel } from './boot.ts'
import { encodeData, encodeFrame, encodePacked, type Frame, FrameDecoder, FrameType } from './frame.ts'
import type { BootOptions, Kernel } from './kernel.ts'
import { consoleTail, describeKernelEnd } from './kernel-end.ts'
import type { GuestFile, GuestProcess, Machine, Placement, RunResult, ScriptPlace, SpawnOptions } from './machine.ts'
import { SerialLine } from './serial-line.ts'

type ExitStatus = Awaited<GuestProcess['exited']>

/** Receives the frames of one stream. */
type Listener = (frame: Frame) => void

/** The kernel has ended, or did not start. */
class MachineGone extends Error {}

const bootDeadlineMs = 60_000

/** Boots a kernel and waits until its agent answers, as machineOn does. */
export const startMachine = async (options: BootOptions): Promise<Machine> => machineOn(await bootKernel(options))

/**
 * Waits until the agent of a kernel that boots answers. Rejects with MachineGone and the reason if it does
 * not within a minute (times LAB_TIMEOUT_SCALE).
 */
export async function machineOn(kernel: Kernel): Promise<Machine> {
  const machine = new GuestMachine(kernel)
  const deadline = AbortSignal.timeout(bootDeadlineMs * timeoutScale())
  const late = once(deadline, 'abort').then(() => 'did not answer in time')
  const reason = await Promise.race([machine.ready, machine.ended, late])
  if (reason === undefined) {
    kernel.booted()
    return machine
  }
  await machine.stop()
  throw new MachineGone(`The embedded kernel did not start: it ${reason}. Its console is in "${kernel.consoleFile}".`)
}

class GuestMachine implements Machine {
  readonly ownKernel: boolean
  readonly ended: Promise<string>
  readonly ready: Promise<undefined>
  private readonly kernel: Kernel
  private readonly line: SerialLine
  private readonly encode: typeof encodeFrame
  private readonly listeners = new Map<number, Listener>()
  private readonly forwards = new Map<number, number>()
  private nextStream = 1
  private gone: string | undefined

  constructor(kernel: Kernel) {
    this.kernel = kernel
    this.ownKernel = kernel.ownKernel
    this.line = new SerialLine(kernel.toGuest, kernel.line.windowBytes)
    this.encode = kernel.line.packed ? encodePacked : encodeFrame
    this.ready = new Promise((resolve) =>
      this.listeners.set(0, ({ type }) => {
        if (type === FrameType.ready) resolve(undefined)
      }),
    )
    this.ended = new Promise((resolve) => {
      const end = (reason: string) => {
        this.gone ??= reason
        for (const [stream, listener] of this.listeners)
          listener({ stream, type: FrameType.error, payload: Buffer.from(`the embedded kernel ${reason}`) })
        this.listeners.clear()
        resolve(reason)
      }
      kernel.process.on('error', (error) => end(`could not be started (${error.message})`))
      kernel.process.on('exit', () => end(`ended ${describeKernelEnd(consoleTail(kernel.consoleFile))}`))
    })
    const decoder = new FrameDecoder()
    kernel.fromGuest.on('data', (bytes: Buffer) => {
      for (const frame of decoder.push(bytes)) this.dispatch(frame)
    })
    kernel.toGuest.on('error', () => {})
    kernel.fromGuest.on('error', () => {})
  }

  layer(root: string, upper: string, work: string) {
    return this.kernel.layer(root, upper, work)
  }

  private dispatch(frame: Frame): void {
    if (frame.type === FrameType.acknowledge) this.line.acknowledge(frame.payload.readUInt32BE())
    else if (frame.type === FrameType.opened) this.carry(frame)
    else this.listeners.get(frame.stream)?.(frame)
  }

  private send(stream: number, type: number, payload: Uint8Array | string = ''): void {
    if (this.gone === undefined) this.line.write(this.encode(stream, type, payload))
  }

  private sendData(stream: number, bytes: Uint8Array, sent: () => void): void {
    let room = true
    for (const frame of encodeData(stream, FrameType.data, bytes, this.encode)) room = this.line.write(frame)
    if (room || this.gone !== undefined) sent()
    else this.line.drained(sent)
  }

  private open(listener: Listener): number {
    if (this.gone !== undefined) throw new MachineGone(`the embedded kernel ${this.gone}`)
    const stream = this.nextStream++
    this.listeners.set(stream, listener)
    return stream
  }

  /** Sends a request that is answered by `done` or `error`; resolves to its stream. */
  private ask(type: number, payload: Uint8Array | string): Promise<number> {
    return new Promise((resolve, reject) => {
      const stream = this.open(({ type: answer, payload: reason }) => {
        this.listeners.delete(stream)
        if (answer === FrameType.done) resolve(stream)
        else reject(new MachineGone(reason.toString()))
      })
      this.send(stream, type, payload)
    })
  }

  spawn(command: readonly string[], placement: Placement = {}, options: SpawnOptions = {}): Promise<GuestProcess> {
    return new Promise((resolve, reject) => {
      const stdout = new PassThrough()
      const stderr = new PassThrough()
      const stdin = new Writable({
        write: (bytes: Buffer, _encoding, done) => this.sendData(stream, bytes, done),
        final: (done) => {
          this.send(stream, FrameType.end)
          done()
        },
      })
      let settle: (end: ExitStatus) => void = () => {}
      const exited = new Promise<ExitStatus>((done) => {
        settle = done
      })
      const finish = (end: ExitStatus) => {
        this.listeners.delete(stream)
        stdout.end()
        stderr.end()
        settle(end)
      }
      const stream = this.open(({ type, payload }) => {
        if (type === FrameType.data) stdout.write(payload)
        else if (type === FrameType.errorData) stderr.write(payload)
        else if (type === FrameType.exit) finish(JSON.parse(payload.toString()))
        else if (type === FrameType.started) {
          const { pid } = JSON.parse(payload.toString()) as { pid: number }
          const kill = (signal: string) => this.send(stream, FrameType.kill, JSON.stringify({ signal }))
          const resize = (columns: number, rows: number) =>
            this.send(stream, FrameType.resize, JSON.stringify({ columns, rows }))
          resolve({ pid, stdin, stdout, stderr, exited, kill, resize })
        } else {
          reject(new MachineGone(payload.toString()))
          finish({ code: null, signal: 'SIGKILL' })
        }
      })
      this.send(stream, FrameType.spawn, JSON.stringify({ ...placement, ...options, command }))
    })
  }

  run(
    command: readonly string[],
    placement: Placement = {},
    { stdin = '', timeoutMs }: { stdin?: string | Uint8Array; timeoutMs?: number } = {},
  ): Promise<RunResult> {
    return this.result(
      FrameType.spawn,
      { ...placement, command },
      `"${command.join(' ')}"`,
      timeoutMs,
      Buffer.from(stdin),
    )
  }

  script(text: string, { pid, netns }: ScriptPlace = {}, options: { timeoutMs?: number } = {}): Promise<RunResult> {
    return this.result(FrameType.script, { pid, netns, script: text }, 'a script', options.timeoutMs)
  }

  /** The output and exit code of a request that starts a process. Rejects if it takes too long or the machine has ended. */
  private async result(
    type: number,
    request: object,
    what: string,
    timeoutMs?: number,
    stdin?: Uint8Array,
  ): Promise<RunResult> {
    const output: Record<number, Buffer[]> = { [FrameType.data]: [], [FrameType.errorData]: [] }
    const textOf = (part: number) => Buffer.concat(output[part] ?? []).toString()
    let timer: NodeJS.Timeout | undefined
    const exitCode = await new Promise<number>((resolve, reject) => {
      let late: Error | undefined
      const stream = this.open((frame) => {
        output[frame.type]?.push(frame.payload)
        if (frame.type !== FrameType.exit && frame.type !== FrameType.error) return
        this.listeners.delete(stream)
        if (frame.type === FrameType.error) reject(new MachineGone(frame.payload.toString()))
        else if (late) reject(late)
        else {
          const { code, signal } = JSON.parse(frame.payload.toString()) as ExitStatus
          resolve(code ?? 128 + (signal ? 9 : 0))
        }
      })
      this.send(stream, type, JSON.stringify(request))
      if (stdin) this.sendData(stream, stdin, () => this.send(stream, FrameType.end))
      if (timeoutMs === undefined) return
      timer = setTimeout(() => {
        late = new MachineGone(`${what} did not end within ${timeoutMs} ms`)
        this.send(stream, FrameType.kill, JSON.stringify({ signal: 'SIGKILL' }))
      }, timeoutMs)
    }).finally(() => clearTimeout(timer))
    return { exitCode, stdout: textOf(FrameType.data), stderr: textOf(FrameType.errorData) }
  }

  async write(files: readonly GuestFile[]): Promise<void> {
    await Promise.all(
      files.map(({ path, content, mode }) => {
        const head = Buffer.from(`${JSON.stringify({ path, mode })}\0`)
        return this.ask(FrameType.write, Buffer.concat([head, Buffer.from(content)]))
      }),
    )
  }

  async forward(netns: string, address: string, port: number, hostPort: number): Promise<void> {
    const socket = `/run/forward-${netns}-${port}`
    const stream = await this.ask(FrameType.forward, JSON.stringify({ socket }))
    this.forwards.set(stream, hostPort)
    const listen = `TCP-LISTEN:${port},bind=${address},fork,reuseaddr,backlog=64`
    const relay = await this.spawn(['socat', listen, `UNIX-CONNECT:${socket}`], { netns })
    relay.stdout.resume()
    relay.stderr.resume()
  }

  /** Connects a connection from the guest with a TCP port of the host's loopback interface. */
  private carry({ stream, payload }: Frame): void {
    const { forward } = JSON.parse(payload.toString()) as { forward: number }
    const port = this.forwards.get(forward)
    if (port === undefined) {
      this.send(stream, FrameType.exit)
      return
    }
    const socket: Socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
    this.listeners.set(stream, ({ type, payload: bytes }) => {
      if (type === FrameType.data) socket.write(bytes)
      else if (type === FrameType.end) socket.end()
      else socket.destroy()
    })
    socket.on('data', (bytes: Buffer) => {
      socket.pause()
      this.sendData(stream, bytes, () => socket.resume())
    })
    socket.on('end', () => this.send(stream, FrameType.end))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      if (this.listeners.delete(stream)) this.send(stream, FrameType.exit)
    })
  }

  async stop(): Promise<void> {
    this.kernel.end()
    await this.ended
  }
}
