/**
 * Characters that control a terminal or are invisible: control characters of ASCII and Latin-1
 * except tabs and line ends, other line ends, marks of direction, characters without a width, and
 * tags.
 */
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const hex = code.toString(16)
  return code < 0x100
    ? `\\x${hex.padStart(2, '0')}`
    : `\\u${code < 0x10000 ? hex.padStart(4, '0') : `{${hex}}`}`
}

/** Text with every invisible character escaped, except tabs and line ends. */
export const visibleText = (text: string): string => text.replace(UNSEEN, escaped)

/**
 * Text from a node or the API, safe to print and to align: like visibleText, with two spaces for a
 * tab.
 */
export const plainText = (text: string): string => visibleText(text).replaceAll('\t', '  ')

/**
 * Text that may contain line ends, such as a file's name, as a part of one line: none of it can
 * look like another line.
 */
export const inOneLine = (text: string): string => plainText(text).replaceAll('\n', '\\n')

/**
 * Untrusted text for one of our messages: short, on one line, with its control characters made
 * visible.
 */
export function quoted(text: string): string {
  return `"${shortened(inOneLine(text.slice(0, 400)), 80)}"`
}

/** The beginning of a long line, for terminal output. */
export function shortened(text: string, length = 200): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

/**
 * JSON that is safe to print: characters that JSON leaves unescaped but that control a terminal are
 * escaped too.
 */
export function plainJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNSEEN, (character) =>
    character.replace(
      /[\s\S]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  )
}
