import { textWidth } from '../figures/canvas.ts'
import { CONTENT, FOLD_SCALE, GEOMETRY } from './style.ts'

const widthOf = (line: string): number => textWidth(line, GEOMETRY.code, 'mono')

/** A word with the blank after it, and the quote that is open at its start. */
interface Word {
  text: string
  quote: string
}

/**
 * Splits a command at the blanks where a line may end: not within single quotes, nor after $(
 * within double quotes.
 */
function splitCommand(command: string): Word[] {
  const tokens: Word[] = []
  let quote = ''
  let word: Word = { text: '', quote }
  const letters = [...command]
  for (const [index, letter] of letters.entries()) {
    const isEscaped = letters[index - 1] === '\\' && quote !== "'"
    word.text += letter
    if ((letter === "'" || letter === '"') && !isEscaped && (quote === '' || quote === letter))
      quote = quote === '' ? letter : ''
    if (letter === ' ' && quote !== "'" && !letters.slice(0, index).join('').includes('"$(')) {
      tokens.push(word)
      word = { text: '', quote }
    }
  }
  return [...tokens, word]
}

/**
 * How well a line can end before a word: outside of quotes, and before an option or another
 * command, not before an option's value.
 */
const breakRank = ({ text, quote }: Word, before: string): number =>
  (quote === '' ? 2 : 0) + (/^(-|[|&])/.test(text) || before.trimEnd().endsWith(';') ? 1 : 0)

/**
 * Folds a command to a slide's width, with backslashes at line ends: lines that the browser wraps
 * cannot be copied as one command. Within double quotes the shell removes backslash and newline, so
 * no space may be added there; within single quotes a line is never broken. A rule is folded
 * without them, as it is no command.
 */
export function foldCommand(
  command: string,
  { end, scale } = { end: ' \\', scale: FOLD_SCALE },
): string[] {
  const room = CONTENT.width / scale - 2 * GEOMETRY.codePad
  const lines: string[] = []
  let tokens = splitCommand(command)
  let indent = ''
  while (widthOf(indent + joinWords(tokens)) > room) {
    const count = wordsThatFit(tokens, indent, end, room)
    if (count === 0) break
    lines.push(`${(indent + joinWords(tokens.slice(0, count))).trimEnd()}${end}`)
    tokens = tokens.slice(count)
    indent = tokens[0]?.quote === '' || end === '' ? '  ' : ''
  }
  return [...lines, indent + joinWords(tokens)]
}

const joinWords = (tokens: readonly Word[]): string => tokens.map(({ text }) => text).join('')

/** How many words a line takes: up to the last of the best breaks that fit; 0 for a single word. */
function wordsThatFit(tokens: readonly Word[], indent: string, end: string, room: number): number {
  let line = indent
  let best = { count: 0, rank: 0 }
  for (const [count, word] of tokens.entries()) {
    const before = tokens[count - 1]?.text ?? ''
    // A word that is too wide has a line of its own.
    if (count > 1 && widthOf(line.trimEnd() + end) > room) break
    const rank = widthOf(line) > room / 6 ? breakRank(word, before) : 0
    if (count > 0 && rank >= best.rank) best = { count, rank }
    line += word.text
  }
  return best.count
}
