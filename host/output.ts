import { chalk } from 'zx/core'
import { visibleText } from './plain-text.ts'

/** Bold, dim, colours, and their ends: all that chalk writes for us. */
const COLOUR = /(\x1b\[(?:[0-4]|2[2-4]|3[0-7]|39|9[0-7])m)/

/** Text as it may be printed: characters that a terminal would obey are visible, but our colours stay where there are colours. */
function printable(text: string): string {
  if (chalk.level === 0) return visibleText(text)
  return text
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : visibleText(part)))
    .join('')
}

type Output = NodeJS.WriteStream
type Write = Output['write']

/** Guarded stream → its own write. */
const unguarded = new WeakMap<Output, Write>()

/**
 * From here on, whatever this process prints on its standard output and error is visible text: rules, objects, logs, names and
 * arguments reach a terminal as characters, never as commands, whichever script prints them.
 */
export function guardOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    const { write } = stream
    if (Object.hasOwn(write, 'guards')) continue
    const visible = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
      return Reflect.apply(write, stream, [printable(text), ...rest])
    }
    unguarded.set(stream, (...words: unknown[]) => Reflect.apply(write, stream, words))
    stream.write = Object.assign(visible, { guards: true })
  }
}

/** The stream as it is, for what must move the cursor: a line that is replaced, a line that is typed. The texts in it are the caller's care. */
export function rawOutput(stream: Output): Output {
  const write = unguarded.get(stream)
  return write ? Object.create(stream, { write: { value: write } }) : stream
}

/** What a command on a node printed: as it is for a file or a pipe, as visible text for a terminal. */
export function printResult({ stdout, stderr }: { stdout: string; stderr: string }): void {
  const outputOf = (stream: Output) => (stream.isTTY ? stream : rawOutput(stream))
  outputOf(process.stdout).write(stdout)
  outputOf(process.stderr).write(stderr)
}
