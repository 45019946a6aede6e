/** The typeface of a text: proportional, bold, or monospaced. */
export type Face = 'sans' | 'bold' | 'mono'

// Advance widths in em of DejaVu, the widest fallback typeface of browsers, so the estimate is conservative.
const NARROW = 0.34
const MEDIUM = 0.46
const BROAD = 0.84
const NORMAL = 0.625
const MONO = 0.603
const BOLDNESS = 1.12

/** The width of one line of text in px, an upper bound for browsers. Pure; reads no font. */
export function textWidth(text: string, size: number, face: Face = 'sans'): number {
  let width = 0
  for (const character of text) width += advance(character, face)
  return width * size * (face === 'bold' ? BOLDNESS : 1)
}

function advance(character: string, face: Face): number {
  const wide = character.codePointAt(0) ?? 0
  if (wide >= 0x1100 && (wide <= 0x11ff || wide >= 0x2e80)) return 1
  if (face === 'mono') return MONO
  if (/[ijlI.,:;'!|]/.test(character)) return NARROW
  if (/[ frt()[\]"/\\-]/.test(character)) return MEDIUM
  if (/[A-HJ-Zmw@%→←…–=+<>]/.test(character)) return BROAD
  return NORMAL
}

/** Breaks a text into lines of at most `width` px at its blanks; a word that is too long is broken too, as in the pages. */
export function wrapText(text: string, width: number, size: number, face: Face = 'sans'): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (textWidth(longer, size, face) <= width) {
      line = longer
      continue
    }
    if (line !== '') lines.push(line)
    line = word
    while (textWidth(line, size, face) > width && line.length > 1) {
      const end = breakAt(line, width, size, face)
      lines.push(line.slice(0, end))
      line = line.slice(end)
    }
  }
  return line === '' && lines.length > 0 ? lines : [...lines, line]
}

function breakAt(word: string, width: number, size: number, face: Face): number {
  let end = 1
  while (end < word.length && textWidth(word.slice(0, end + 1), size, face) <= width) end += 1
  return end
}
