import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { PassThrough, Writable } from 'node:stream'
import { timeoutScale } from '../../host/wait.ts'
import { bootKernel } from './boot.ts'
import { encodeData, encodeFrame, encodePacked, type Frame, FrameDecoder, FrameType } from './frame.ts'
import type { BootOptions, Kernel } from './kernel.ts'
import { consoleTail, describeKernelEnd } from './kernel-end.ts'
import type { GuestProcess, Machine, Placement, RunResult, ScriptPlace, SpawnOptions } from './machine.ts'
import { SerialLine } from './serial-line.ts'

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

  /** Sends a request that is answered by `done` or `error`; resolves to the answer's content. */
  private ask(type: number, payload: Uint8Array | string): Promise<{ stream: number; said: Buffer }> {
    return new Promise((resolve, reject) => {
      const stream = this.open((frame) => {
        if (frame.type === FrameType.done) resolve({ stream, said: frame.payload })
        else reject(new MachineGone(frame.payload.toString()))
        this.listeners.delete(stream)
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
      let settle: (end: { code: number | null; signal: string | null }) => void = () => {}
      const exited = new Promise<{ code: number | null; signal: string | null }>((done) => {
        settle = done
      })
      const finish = (end: { code: number | null; signal: string | null }) => {
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

  async run(
    command: readonly string[],
    placement: Placement = {},
    options: { stdin?: string | Uint8Array; timeoutMs?: number } = {},
  ): Promise<RunResult> {
    const child = await this.spawn(command, placement)
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout.on('data', (bytes: Buffer) => stdout.push(bytes))
    child.stderr.on('data', (bytes: Buffer) => stderr.push(bytes))
    // A short command's output and end arrive together: the streams deliver what they hold only afterwards.
    const delivered = [child.stdout, child.stderr].map((output) => once(output, 'end'))
    child.stdin.end(options.stdin ?? '')
    let late = false
    const timer =
      options.timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            late = true
            child.kill('SIGKILL')
          }, options.timeoutMs)
    const { code, signal } = await child.exited
    clearTimeout(timer)
    await Promise.all(delivered)
    if (late) throw new MachineGone(`"${command.join(' ')}" did not end within ${options.timeoutMs} ms`)
    if (this.gone !== undefined) throw new MachineGone(`the embedded kernel ${this.gone}`)
    return {
      exitCode: code ?? 128 + (signal ? 9 : 0),
      stdout: Buffer.concat(stdout).toString(),
      stderr: Buffer.concat(stderr).toString(),
    }
  }

  async script(text: string, place: ScriptPlace = {}, options: { timeoutMs?: number } = {}): Promise<RunResult> {
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    const { pid, netns } = place
    let timer: NodeJS.Timeout | undefined
    let late = false
    const exitCode = await new Promise<number>((resolve, reject) => {
      const stream = this.open(({ type, payload }) => {
        if (type === FrameType.data) stdout.push(payload)
        else if (type === FrameType.errorData) stderr.push(payload)
        else {
          this.listeners.delete(stream)
          if (type === FrameType.exit) resolve((JSON.parse(payload.toString()) as { code: number }).code)
          else reject(new MachineGone(payload.toString()))
        }
      })
      this.send(stream, FrameType.script, JSON.stringify({ pid, netns, script: text }))
      if (options.timeoutMs === undefined) return
      timer = setTimeout(() => {
        late = true
        this.send(stream, FrameType.kill, JSON.stringify({ signal: 'SIGKILL' }))
      }, options.timeoutMs)
    }).finally(() => clearTimeout(timer))
    if (late) throw new MachineGone(`a script did not end within ${options.timeoutMs} ms`)
    return { exitCode, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
  }

  async write(files: readonly { path: string; content: string | Uint8Array; mode?: number }[]): Promise<void> {
    await Promise.all(
      files.map(({ path, content, mode }) => {
        const head = Buffer.from(`${JSON.stringify({ path, mode })}\0`)
        return this.ask(FrameType.write, Buffer.concat([head, Buffer.from(content)]))
      }),
    )
  }

  async remove(paths: readonly string[]): Promise<void> {
    await Promise.all(paths.map((path) => this.ask(FrameType.remove, JSON.stringify({ path }))))
  }

  async forward(netns: string, address: string, port: number, hostPort: number): Promise<void> {
    const socket = `/run/forward-${netns}-${port}`
    const { stream } = await this.ask(FrameType.forward, JSON.stringify({ socket }))
    this.forwards.set(stream, hostPort)
    const listen = `TCP-LISTEN:${port},bind=${address},fork,reuseaddr,backlog=64`
    const relay = await this.spawn(['socat', listen, `UNIX-CONNECT:${socket}`], { netns })
    relay.stdout.resume()
    relay.stderr.resume()
  }

  async status(url: string, timeoutMs: number): Promise<number> {
    const { said } = await this.ask(FrameType.get, JSON.stringify({ url, timeoutMs }))
    return (JSON.parse(said.toString()) as { status: number }).status
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
