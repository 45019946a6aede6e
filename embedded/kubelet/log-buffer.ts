import { Readable } from 'node:stream'
import type { LogRequest } from '../apiserver/api-call.ts'

/** One line of a container's output. */
export interface LogLine {
  milliseconds: number
  /** Including its line break, which the last line of a process and parts of long lines lack. */
  text: string
  stream: OutputStream
}

/**
 * Lines of one output that were completed at the same time. One value for each line takes fifty
 * times the memory of a short line.
 */
interface LogBlock extends LogLine {
  /** Whole lines, of which the last one may lack its line break. */
  text: string
}

export type OutputStream = 'stdout' | 'stderr'

/**
 * Receives a container's later output in chunks, which need not be lines, or in blocks of lines.
 */
export interface OutputReader {
  chunk?(stream: OutputStream, text: string): unknown
  block?(block: LogBlock): void
  end(): void
}

const keptBytes = 4 * 1024 * 1024
/** Blocks are removed at this size, many at once, because each removal moves all that remain. */
const fullBytes = 5 * 1024 * 1024
/** A longer line becomes several, as in containerd (max_container_log_line_size). */
const longestLine = 16 * 1024
/** What a block takes beside its text. */
const blockBytes = 128

const sizeOf = ({ text }: LogBlock) => text.length + blockBytes

/**
 * At least the last 4 MB of the output of one run of a container; less if it is written in many
 * small parts.
 */
export class LogBuffer {
  readonly #blocks: LogBlock[] = []
  #bytes = 0
  readonly #partial = new Map<OutputStream, { text: string; milliseconds: number }>()
  readonly #readers = new Set<OutputReader>()
  ended = false

  /** Receives output of one stream in chunks; lines of the two streams are not mixed. */
  write(stream: OutputStream, chunk: string): void {
    for (const reader of this.#readers) reader.chunk?.(stream, chunk)
    const now = Date.now()
    const open = this.#partial.get(stream) ?? { text: '', milliseconds: now }
    this.#partial.delete(stream)
    const text = open.text + chunk
    const [first, last] = [text.indexOf('\n') + 1, text.lastIndexOf('\n') + 1]
    this.#add(stream, text.slice(0, first), open.milliseconds)
    this.#add(stream, text.slice(first, last), now)
    const [rest, milliseconds] = [text.slice(last), first > 0 ? now : open.milliseconds]
    if (rest.length > longestLine) this.#add(stream, rest, milliseconds)
    else if (rest !== '') this.#partial.set(stream, { text: rest, milliseconds })
  }

  #add(stream: OutputStream, text: string, milliseconds: number): void {
    if (text === '') return
    const block = { milliseconds, text, stream }
    this.#blocks.push(block)
    this.#bytes += sizeOf(block)
    if (this.#bytes > fullBytes) this.#removeFirst()
    for (const reader of this.#readers) reader.block?.(block)
  }

  #removeFirst(): void {
    const last = this.#blocks.length - 1
    let count = 0
    for (let block = this.#blocks[0]; block && count < last; block = this.#blocks[count]) {
      if (this.#bytes <= keptBytes) break
      this.#bytes -= sizeOf(block)
      count++
    }
    this.#blocks.splice(0, count)
  }

  /** The output has ended. */
  end(): void {
    for (const [stream, { text, milliseconds }] of this.#partial)
      this.#add(stream, text, milliseconds)
    this.#partial.clear()
    this.ended = true
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
  }

  /** The lines that are kept, in blocks. */
  all(): readonly LogBlock[] {
    return this.#blocks
  }

  /** Passes all earlier output to a reader of chunks. */
  replay(reader: OutputReader): void {
    for (const { stream, text } of this.#blocks) reader.chunk?.(stream, text)
    for (const [stream, { text }] of this.#partial) reader.chunk?.(stream, text)
  }

  /** Passes all later output to a reader. Returns a function that ends the subscription. */
  read(reader: OutputReader): () => void {
    if (this.ended) reader.end()
    else this.#readers.add(reader)
    return () => this.#readers.delete(reader)
  }
}

/**
 * Whether a stream takes more output, which is asked each time: what its reader has not read is
 * kept in memory. One that pauses misses output, as on a node, whose logs are rotated.
 */
export function roomIn(out: {
  readonly readableLength: number
  readonly writableLength: number
}): () => boolean {
  const waiting = () => out.readableLength + out.writableLength
  const limit = waiting() + fullBytes
  return () => waiting() < limit
}

const linesOf = (text: string) => text.split(/(?<=\n)/)

/** The last lines of blocks, which are shortened where they begin within one. */
function lastLines(blocks: readonly LogBlock[], count: number): LogBlock[] {
  const last: LogBlock[] = []
  let left = count
  for (const block of blocks.toReversed()) {
    if (left <= 0) break
    const lines = linesOf(block.text)
    last.push(lines.length > left ? { ...block, text: lines.slice(-left).join('') } : block)
    left -= lines.length
  }
  return last.reverse()
}

/**
 * Each line with its time in RFC 3339 with nanoseconds, as the container runtime interface writes
 * it.
 */
function withTimes({ text, milliseconds }: LogBlock): string {
  const time = new Date(milliseconds).toISOString().replace('Z', '000000Z')
  return linesOf(text)
    .map((line) => `${time} ${line}`)
    .join('')
}

/**
 * A log that is written when it is read. What waits are the blocks, which the container's log holds
 * too.
 */
class LogReader extends Readable {
  readonly #blocks: LogBlock[]
  readonly #timestamps: boolean
  /** The bytes that may be sent. */
  #left: number
  #waitingBytes = 0
  #isWanted = false
  #isEnded = false

  constructor(blocks: LogBlock[], { timestamps, limitBytes }: LogRequest) {
    super()
    this.#blocks = blocks
    this.#timestamps = timestamps
    this.#left = limitBytes ?? Number.POSITIVE_INFINITY
  }

  /** Later output; it is left out while 5 MB of it wait for a client that does not read. */
  add(block: LogBlock): void {
    if (this.#waitingBytes > fullBytes) return
    this.#blocks.push(block)
    this.#waitingBytes += sizeOf(block)
    if (this.#isWanted) this._read()
  }

  /** There is no more output. */
  finish(): void {
    this.#isEnded = true
    if (this.#isWanted) this._read()
  }

  override _read(): void {
    const block = this.#left > 0 ? this.#blocks.shift() : undefined
    this.#isWanted = block === undefined
    if (block) this.#send(block)
    else if (this.#isEnded || this.#left <= 0) this.push(null)
  }

  #send(block: LogBlock): void {
    this.#waitingBytes = Math.max(0, this.#waitingBytes - sizeOf(block))
    const bytes = Buffer.from(this.#timestamps ? withTimes(block) : block.text)
    const sent = bytes.subarray(0, this.#left)
    this.#left -= sent.length
    this.push(sent)
  }
}

/** The requested lines of a log, in the format of `kubectl logs`. */
export function logStream(log: LogBuffer, request: LogRequest): Readable {
  const since = request.sinceSeconds === undefined ? 0 : Date.now() - request.sinceSeconds * 1000
  const recent = log.all().filter(({ milliseconds }) => milliseconds >= since)
  const { tailLines } = request
  const out = new LogReader(
    tailLines === undefined ? recent : lastLines(recent, tailLines),
    request,
  )
  if (!request.follow) out.finish()
  else out.on('close', log.read({ block: (block) => out.add(block), end: () => out.finish() }))
  return out
}
