/** One line of a container's output. */
export interface LogLine {
  /** RFC 3339 with nanoseconds, as the container runtime interface writes it. */
  time: string
  milliseconds: number
  /** With its line break; the last line of a process may lack it. */
  text: string
}

const keptBytes = 4 * 1024 * 1024

/** What one run of a container printed, the oldest forgotten beyond 4 MB. */
export class LogBuffer {
  private lines: LogLine[] = []
  private bytes = 0
  private readonly partial = new Map<string, { text: string; milliseconds: number }>()
  private readonly followers = new Set<{ line(line: LogLine): void; end(): void }>()
  ended = false

  /** Takes output of one stream as it comes; lines of two streams are not mixed. */
  write(stream: 'stdout' | 'stderr', chunk: string): void {
    const now = Date.now()
    const open = this.partial.get(stream)
    const pieces = ((open?.text ?? '') + chunk).split(/(?<=\n)/)
    const last = pieces.at(-1) ?? ''
    const whole = last.endsWith('\n') ? pieces : pieces.slice(0, -1)
    for (const [index, text] of whole.entries()) this.add(text, index === 0 && open ? open.milliseconds : now)
    if (whole.length < pieces.length && last !== '') {
      const since = whole.length === 0 && open ? open.milliseconds : now
      this.partial.set(stream, { text: last, milliseconds: since })
    } else this.partial.delete(stream)
  }

  private add(text: string, milliseconds: number): void {
    const time = new Date(milliseconds).toISOString().replace('Z', '000000Z')
    const line = { time, milliseconds, text }
    this.lines.push(line)
    this.bytes += text.length
    while (this.bytes > keptBytes) this.bytes -= this.lines.shift()?.text.length ?? this.bytes
    for (const follower of this.followers) follower.line(line)
  }

  /** Nothing more will come. */
  end(): void {
    for (const { text, milliseconds } of this.partial.values()) this.add(text, milliseconds)
    this.partial.clear()
    this.ended = true
    for (const follower of this.followers) follower.end()
    this.followers.clear()
  }

  all(): readonly LogLine[] {
    return this.lines
  }

  /** Calls back for each line to come; returns what ends that. */
  follow(line: (line: LogLine) => void, end: () => void): () => void {
    const follower = { line, end }
    this.followers.add(follower)
    return () => this.followers.delete(follower)
  }
}
