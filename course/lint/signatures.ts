// What a module offers, listed from its source as the formatter writes it. Pure.

/**
 * What begins a declaration, as the formatter writes it: a function, a constant (perhaps an arrow
 * function), a method of a class.
 */
const DECLARED = [
  /^export (?:async )?function (?<name>\w+)(?:<[^(]*>)?(?=\()/,
  /^export const (?<name>\w+)(?:: [^=]+)? =\s+(?:async )?(?:<[^(]*>)?(?=\()/,
  /^export const (?<name>\w+)\b/,
  /^export class (?<name>\w+ extends \w+)\b/,
  /^ {2}(?:async )?(?<name>(?!constructor\b)[a-z]\w*)(?=\()/,
]
const CLASS = /^(?:export )?class /
const COMMENT = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n$/
/** The type of the result, up to the body. */
const RESULT = /^(?:: ([\s\S]*?))?(?: \{\n| =>)/

/** The text from a bracket up to the one that closes it; empty if none does. */
function bracketed(source: string): string {
  let depth = 0
  for (let at = 0; at < source.length; at++) {
    if ('([{'.includes(source[at] ?? '')) depth++
    if (')]}'.includes(source[at] ?? '')) depth--
    if (depth === 0) return source.slice(0, at + 1)
  }
  return ''
}

const onOneLine = (text: string): string =>
  text
    .replace(/\/\*\*[\s\S]*?\*\/|\/\/.*/g, '')
    .replace(/\s+/g, ' ')
    .replace(/([([]) /g, '$1')
    .replace(/,? ([)\]])/g, '$1')
    .replace(/, \}/g, ' }')
    .trim()

/** The first sentence of a comment. */
const firstSentence = (comment: string): string =>
  comment
    .replace(/^ *\*+ ?/gm, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?@\w+ .*/, '')
    .replace(/\. [A-Z`].*/, '.')
    .trim()

/**
 * A line for each exported function, constant and method of a module: its name, parameters and
 * result, and the first sentence about it.
 */
export function signaturesIn(source: string): string[] {
  let isInClass = false
  let start = 0
  return source.split(/(?<=\n)/).flatMap((line) => {
    const rest = source.slice(start)
    const comment = COMMENT.exec(source.slice(0, start))?.[1] ?? ''
    start += line.length
    if (/^\S/.test(line)) isInClass = CLASS.test(line)
    if (line.startsWith('  ') && !isInClass) return []
    const found = DECLARED.map((declared) => declared.exec(rest)).find((match) => match !== null)
    if (!found?.groups) return []
    const after = rest.slice(found[0].length)
    const parameters = after.startsWith('(') ? bracketed(after) : ''
    const result = parameters && RESULT.exec(after.slice(parameters.length))?.[1]
    const declared = onOneLine(`${found.groups.name}${parameters}${result ? `: ${result}` : ''}`)
    const told = firstSentence(comment)
    return [told ? `${declared}: ${told}` : declared]
  })
}

/** The names of what a module exports. */
export const exportsIn = (source: string): string[] =>
  [...source.matchAll(/^export (?:(?:async )?function|const) (\w+)/gm)].map(([, name = '']) => name)

/** The fields of the interfaces that a module exports, each with the comment about it. */
export const factsIn = (source: string): string[] =>
  [...source.matchAll(/^export interface \w+ \{\n([\s\S]*?)^\}/gm)].flatMap(([, fields = '']) =>
    [...fields.matchAll(/^(?: {2}\/\*\*(.*)\*\/\n)? {2}(\w.*)\n/gm)].map(([, told = '', field]) =>
      [field, told.trim()].filter(Boolean).join(': '),
    ),
  )
