import { textWidth } from '../figures/canvas.ts'
import { CONTENT, FOLD_SCALE, GEOMETRY } from './style.ts'

const widthOf = (line: string): number => textWidth(line, GEOMETRY.code, 'mono')

/** A word with the blank after it, and the quote that is open at its start. */
interface Word {
  text: string
  quote: string
}

/** Splits a command at the blanks where a line may end: not within single quotes, nor after $( within double quotes. */
function splitCommand(command: string): Word[] {
  const tokens: Word[] = []
  let quote = ''
  let word: Word = { text: '', quote }
  for (const [index, letter] of [...command].entries()) {
    const isEscaped = command[index - 1] === '\\' && quote !== "'"
    word.text += letter
    if ((letter === "'" || letter === '"') && !isEscaped && (quote === '' || quote === letter))
      quote = quote === '' ? letter : ''
    if (letter === ' ' && quote !== "'" && !command.slice(0, index).includes('"$(')) {
      tokens.push(word)
      word = { text: '', quote }
    }
  }
  return [...tokens, word]
}

/** How well a line can end before a word: outside of quotes, and before an option or another command, not before an option's value. */
const breakRank = ({ text, quote }: Word, before: string): number =>
  (quote === '' ? 2 : 0) + (/^(-|[|&])/.test(text) || before.trimEnd().endsWith(';') ? 1 : 0)

/**
 * Folds a command to a slide's width, with backslashes at line ends: lines that the browser wraps cannot be copied as one
 * command. Within double quotes the shell removes backslash and newline, so no space may be added there; within single quotes
 * a line is never broken. A rule is folded without them, as it is no command.
 */
export function foldCommand(
  command: string,
  { end, scale } = { end: ' \\', scale: FOLD_SCALE },
): string[] {
  const room = CONTENT.width / scale - 2 * GEOMETRY.codePad
  const lines: string[] = []
  let tokens = splitCommand(command)
  let indent = ''
  while (widthOf(indent + tokens.map(({ text }) => text).join('')) > room) {
    let line = indent
    let best: { count: number; rank: number } | undefined
    for (const [count, word] of tokens.entries()) {
      const before = tokens[count - 1]?.text ?? ''
      // A word that is too wide has a line of its own.
      if (count > 1 && widthOf(line.trimEnd() + end) > room) break
      const rank = widthOf(line) > room / 6 ? breakRank(word, before) : 0
      if (count > 0 && rank >= (best?.rank ?? 0)) best = { count, rank }
      line += word.text
    }
    if (best === undefined) break
    const taken = tokens.slice(0, best.count).map(({ text }) => text)
    lines.push(`${(indent + taken.join('')).trimEnd()}${end}`)
    tokens = tokens.slice(best.count)
    indent = tokens[0]?.quote === '' || end === '' ? '  ' : ''
  }
  return [...lines, indent + tokens.map(({ text }) => text).join('')]
}
