// A deck in markdown: # Title / --- / ## One idea / text, <!-- figure: … -->, <!-- fence:
// 02-ipvs/web#1 -->, <!-- notes: … -->

import type { Token } from 'markdown-it'
import { Refusal } from '../../dataplane/refusal.ts'
import { directiveHtml, markdown, readDirective } from './directives.ts'

/** A slide; heading, content and speaker notes are HTML, the notes may be empty. */
export interface Slide {
  /** The heading as plain text. */
  title: string
  level: 1 | 2
  heading: string
  content: string
  notes: string
  /** How long the speaker stays on it: the notes begin with `3 min`. */
  minutes: number
  line: number
}

export interface Deck {
  /** File name without extension: `02-ipvs`. */
  name: string
  title: string
  slides: Slide[]
}

/** The minutes of all slides together. */
export const deckMinutes = ({ slides }: Deck): number =>
  slides.reduce((sum, { minutes }) => sum + minutes, 0)

/** A deck that cannot be built; each line of the message begins with file and line. */
export class DeckError extends Refusal {}

/**
 * Reads a deck. A line `---` begins a slide, and each slide begins with its heading (`#` on the
 * first, `##` on the others). Throws DeckError with a line for each fault: a slide without a
 * heading or with two, HTML, images, commands written into a slide, and broken references.
 */
export function readDeck(name: string, text: string): Deck {
  const parts: Token[][] = [[]]
  for (const token of markdown.parse(text, {})) {
    if (token.type === 'hr') parts.push([])
    else parts.at(-1)?.push(token)
  }
  const faults: string[] = []
  const slides = parts.map((part, index) =>
    readSlide(part, index, (line, sentence) =>
      faults.push(`slides/${name}.md:${line}: ${sentence}.`),
    ),
  )
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
  return { name, title: slides[0]?.title ?? name, slides }
}

function readSlide(
  tokens: readonly Token[],
  index: number,
  report: (line: number, sentence: string) => void,
): Slide {
  const line = lineOf(tokens[0])
  const level = index === 0 ? 1 : 2
  const [open, heading, , ...rest] = tokens
  if (open?.type !== 'heading_open' || open.tag !== `h${level}` || !heading)
    report(line, `slide ${index + 1} must begin with a heading "${'#'.repeat(level)} …"`)
  const title = tokenText(heading?.children ?? [])
  let spoken: SpeakerNotes = { notes: '', minutes: 0 }
  for (const token of rest) {
    try {
      requireMarkdown(token, title)
      if (token.type === 'html_block') spoken = replaceDirective(token) ?? spoken
    } catch (error) {
      report(lineOf(token), error instanceof Error ? error.message : String(error))
    }
  }
  return {
    title,
    level,
    heading: wholeWords(renderTokens(heading ? [heading] : [])),
    content: wholeWords(renderTokens(rest)),
    ...spoken,
    line,
  }
}

type SpeakerNotes = Pick<Slide, 'notes' | 'minutes'>

/** Replaces a directive by its HTML. Notes have none there: they are returned. */
function replaceDirective(token: Token): SpeakerNotes | undefined {
  const directive = readDirective(token.content)
  if (directive.kind !== 'notes') {
    token.content = directiveHtml(directive)
    return undefined
  }
  const spoken = readNotes(directive.text)
  token.content = ''
  return spoken
}

const MINUTES = /^(\d{1,2}) min\s+([\s\S]*)$/

/** Reads speaker notes. Throws Error if they do not begin with the minutes. */
function readNotes(written: string): SpeakerNotes {
  const [, count = '', text = ''] = MINUTES.exec(written) ?? []
  if (count === '')
    throw new Error('the notes must begin with the minutes for the slide: <!-- notes: 2 min')
  return { notes: markdown.render(`*${count} min.* ${text}`), minutes: Number(count) }
}

const lineOf = (token: Token | undefined): number => (token?.map?.[0] ?? 0) + 1
const renderTokens = (tokens: readonly Token[]): string =>
  markdown.renderer.render([...tokens], markdown.options, {})

/** Throws Error for what may be in markdown, but not below the heading of a slide. */
function requireMarkdown({ type, info, children }: Token, title: string): void {
  if (type === 'heading_open')
    throw new Error(`"${title}" has a second heading; begin a new slide with a line "---"`)
  if (type === 'fence' && /^bash\b/.test(info))
    throw new Error(
      "commands come from the lab's text, by <!-- fence: 02-ipvs/web#1 -->, so that tests run them",
    )
  const inline = children?.find((child) => child.type === 'html_inline' || child.type === 'image')
  if (inline)
    throw new Error(`"${inline.content.slice(0, 40)}" can't be in a slide; use <!-- figure: … -->`)
}

/**
 * Prevents line breaks after hyphens, so that `--match-set` and `KUBE-CLUSTER-IP` are not broken if
 * they fit.
 */
const wholeWords = (html: string): string =>
  html.replace(
    /(<figure.*?<\/figure>|<[^>]*>)|[^\s<]*-[^\s<]*/gs,
    (word, tag) => tag ?? `<span class="word">${word}</span>`,
  )

/** The words of inline tokens, without marks. */
const tokenText = (tokens: readonly Token[]): string =>
  tokens.map(({ type, content }) => (type === 'softbreak' ? ' ' : content)).join('')
