/**
 * Text that came from a node or the API, safe to print: control characters (a terminal would obey them) become visible,
 * line ends stay.
 */
export function plainText(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    return character === '\t' ? '  ' : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
  })
}

/** The beginning of a long line, for a screen; files keep all of it. */
export function shortened(text: string, length = 200): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

/** JSON that a terminal can show: what JSON itself leaves as it is but a terminal may obey is written as an escape. */
export function plainJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
