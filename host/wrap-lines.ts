import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'

/**
 * Stands for a space of a command while text is wrapped: it is one column wide, and no text
 * contains it.
 */
export const CODE_SPACE = '\ue000'

/** A command in a sentence: in backquotes, or a make target with its variables. */
const COMMAND = /`[^`]+`|\bmake [a-z][\w-]*(?: [A-Z_]+=(?:'[^']*'|[^\s'.,;)]+(?:\.[^\s'.,;)]+)*))*/g

/**
 * Wraps a text at words, within `width` columns; the second and later lines are indented by
 * `hanging`. Words stay whole, and so do commands, which can then be copied: a line is longer than
 * `width` if one is.
 */
export function wrapLines(
  text: string,
  width: number,
  first = '',
  hanging = ' '.repeat(stringWidth(first)),
): string[] {
  const room = Math.max(8, width - stringWidth(hanging))
  const whole = text.replace(COMMAND, (command) => command.replaceAll(' ', CODE_SPACE))
  const lines = wrapAnsi(whole, room).replaceAll(CODE_SPACE, ' ').split('\n')
  return lines.map((line, index) => (index === 0 ? first : hanging) + line)
}

/**
 * The lines of a sentence for a stream: as wrapLines on a terminal, which would break words;
 * otherwise one line.
 */
export const linesFor = (
  { columns }: { columns?: number },
  text: string,
  first = '',
  hanging?: string,
): string[] => (columns ? wrapLines(text, columns, first, hanging) : [first + text])
