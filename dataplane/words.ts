/**
 * Splits a command line as iptables-restore and `ipset restore` do: words are separated by spaces; double quotes
 * enclose a word, and a backslash in them escapes the next character. Undefined if a quote is not closed.
 */
export function splitWords(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(/[ \t]+/).filter((word) => word !== '')
  const words: string[] = []
  let word: string | undefined
  let quoted = false
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at)
    if (quoted && character === '\\' && at + 1 < line.length) {
      at++
      word = (word ?? '') + line.charAt(at)
    } else if (character === '"') {
      quoted = !quoted
      word ??= ''
    } else if (!quoted && (character === ' ' || character === '\t')) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else {
      word = (word ?? '') + character
    }
  }
  if (quoted) return undefined
  if (word !== undefined) words.push(word)
  return words
}

/** A word in double quotes, with `"`, `\` and `'` escaped as iptables-save (xtables_save_string) escapes them. */
export function quoteWord(word: string): string {
  return `"${word.replace(/["\\']/g, '\\$&')}"`
}
