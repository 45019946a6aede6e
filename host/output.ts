import { chalk } from 'zx/core'
import { visibleText } from './plain-text.ts'

/** Start and end of bold, dim and colours: all that we use of chalk. */
const COLOUR = /(\x1b\[(?:[0-4]|2[2-4]|3[0-7]|39|9[0-7])m)/

function printable(text: string): string {
  if (chalk.level === 0) return visibleText(text)
  return text
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : visibleText(part)))
    .join('')
}

type Output = NodeJS.WriteStream
type Write = Output['write']

/** Guarded stream → its original write. */
const unguarded = new WeakMap<Output, Write>()

/**
 * Escapes control characters in everything that this process prints on standard output and error
 * from now on: rules, objects, logs, names and arguments never act as terminal commands, in any
 * script. With NO_COLOR (no-color.org), nothing is coloured.
 */
export function guardOutput(): void {
  // chalk reads FORCE_COLOR and TERM, but not NO_COLOR.
  if (process.env.NO_COLOR) chalk.level = 0
  for (const stream of [process.stdout, process.stderr]) {
    const { write } = stream
    if (Object.hasOwn(write, 'guards')) continue
    const visible = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
      return Reflect.apply(write, stream, [printable(text), ...rest])
    }
    unguarded.set(stream, (...args: unknown[]) => Reflect.apply(write, stream, args))
    stream.write = Object.assign(visible, { guards: true })
  }
}

/**
 * The unguarded stream, for output that moves the cursor: a line that is replaced, a line that is
 * typed. The caller escapes its text.
 */
export function rawOutput(stream: Output): Output {
  const write = unguarded.get(stream)
  return write ? Object.create(stream, { write: { value: write } }) : stream
}

/**
 * Prints the output of a command on a node: unchanged to a file or a pipe, escaped to a terminal.
 */
export function printResult({ stdout, stderr }: { stdout: string; stderr: string }): void {
  const outputOf = (stream: Output) => (stream.isTTY ? stream : rawOutput(stream))
  outputOf(process.stdout).write(stdout)
  outputOf(process.stderr).write(stderr)
}
