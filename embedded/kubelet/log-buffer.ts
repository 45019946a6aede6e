import { PassThrough, type Readable, type Writable } from 'node:stream'
import type { LogRequest } from '../apiserver/api-call.ts'

/** One line of a container's output. */
export interface LogLine {
  milliseconds: number
  /** Including its line break, which the last line of a process and parts of long lines lack. */
  text: string
  stream: OutputStream
}

export type OutputStream = 'stdout' | 'stderr'

/** Receives a container's later output in chunks, which need not be lines, or in lines. */
export interface OutputReader {
  chunk?(stream: OutputStream, text: string): unknown
  line?(line: LogLine): void
  end(): void
}

const keptBytes = 4 * 1024 * 1024
/** Lines are removed at this size, many at once, because each removal moves all that remain. */
const fullBytes = 5 * 1024 * 1024
/** A longer line becomes several, as in containerd (max_container_log_line_size). */
const longestLine = 16 * 1024

/** At least the last 4 MB of the output of one run of a container. */
export class LogBuffer {
  private lines: LogLine[] = []
  private bytes = 0
  private readonly partial = new Map<OutputStream, { text: string; milliseconds: number }>()
  private readonly readers = new Set<OutputReader>()
  ended = false

  /** Receives output of one stream in chunks; lines of the two streams are not mixed. */
  write(stream: OutputStream, chunk: string): void {
    for (const reader of this.readers) reader.chunk?.(stream, chunk)
    const now = Date.now()
    const open = this.partial.get(stream) ?? { text: '', milliseconds: now }
    this.partial.delete(stream)
    for (const [index, text] of (open.text + chunk).split(/(?<=\n)/).entries()) {
      const milliseconds = index === 0 ? open.milliseconds : now
      if (text.endsWith('\n') || text.length > longestLine) this.add(stream, text, milliseconds)
      else if (text !== '') this.partial.set(stream, { text, milliseconds })
    }
  }

  private add(stream: OutputStream, text: string, milliseconds: number): void {
    const line = { milliseconds, text, stream }
    this.lines.push(line)
    this.bytes += text.length
    if (this.bytes > fullBytes) this.removeFirst()
    for (const reader of this.readers) reader.line?.(line)
  }

  private removeFirst(): void {
    const last = this.lines.length - 1
    let count = 0
    for (; this.bytes > keptBytes && count < last; count++)
      this.bytes -= this.lines[count]?.text.length ?? 0
    this.lines.splice(0, count)
  }

  /** The output has ended. */
  end(): void {
    for (const [stream, { text, milliseconds }] of this.partial)
      this.add(stream, text, milliseconds)
    this.partial.clear()
    this.ended = true
    for (const reader of this.readers) reader.end()
    this.readers.clear()
  }

  all(): readonly LogLine[] {
    return this.lines
  }

  /** Passes all earlier output to a reader of chunks. */
  replay(reader: OutputReader): void {
    for (const { stream, text } of this.lines) reader.chunk?.(stream, text)
    for (const [stream, { text }] of this.partial) reader.chunk?.(stream, text)
  }

  /** Passes all later output to a reader. Returns a function that ends the subscription. */
  read(reader: OutputReader): () => void {
    if (this.ended) reader.end()
    else this.readers.add(reader)
    return () => this.readers.delete(reader)
  }
}

/**
 * Whether a stream takes more output, which is asked each time: what its reader has not read is kept in memory. One that pauses misses
 * output, as on a node, whose logs are rotated.
 */
export function roomIn(out: Readable & Writable): () => boolean {
  const waiting = () => out.readableLength + out.writableLength
  const limit = waiting() + fullBytes
  return () => waiting() < limit
}

/** The requested lines of a log, in the format of `kubectl logs`. */
export function logStream(log: LogBuffer, request: LogRequest): Readable {
  const out = new PassThrough()
  let left = request.limitBytes ?? Number.POSITIVE_INFINITY
  const write = ({ milliseconds, text }: LogLine) => {
    // RFC 3339 with nanoseconds, as the container runtime interface writes it.
    const time = request.timestamps
      ? `${new Date(milliseconds).toISOString().replace('Z', '000000Z')} `
      : ''
    const bytes = Buffer.from(time + text)
    out.write(bytes.subarray(0, left))
    left -= bytes.length
  }
  const since = request.sinceSeconds === undefined ? 0 : Date.now() - request.sinceSeconds * 1000
  const recent = log.all().filter(({ milliseconds }) => milliseconds >= since)
  const skipped = Math.max(0, recent.length - (request.tailLines ?? recent.length))
  for (const line of recent.slice(skipped)) if (left > 0) write(line)
  if (!request.follow || left <= 0) return out.end()
  const room = roomIn(out)
  const line = (next: LogLine) => {
    if (left > 0 && room()) write(next)
    if (left <= 0) out.end()
  }
  out.on('close', log.read({ line, end: () => out.end() }))
  return out
}
