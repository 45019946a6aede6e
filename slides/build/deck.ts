// A deck in markdown:  # Title / --- / ## One idea / text, <!-- figure: … -->, <!-- fence: 02-ipvs/web#1 -->, <!-- notes: … -->

import MarkdownIt, { type Token } from 'markdown-it'

/** A directive of a slide, replaced by the build: `<!-- figure: hooks path=in -->`. */
export interface Directive {
  kind: string
  /** The words without a `=`. */
  name: string
  options: ReadonlyMap<string, string>
  line: number
}

/** Markdown, or a directive, in document order. */
export type Block = { tokens: Token[] } | { directive: Directive }

export interface Slide {
  /** The heading as plain text. */
  title: string
  titleTokens: Token[]
  level: 1 | 2
  blocks: Block[]
  /** The speaker notes, as markdown tokens; may be empty. */
  notes: Token[]
  line: number
}

export interface Deck {
  /** File name without extension: `02-ipvs`. */
  name: string
  title: string
  slides: Slide[]
}

/** A deck that cannot be built; the message begins with file and line. */
export class DeckError extends Error {}

const COMMENT = /^<!--\s*([a-z]+)(?::\s*([\s\S]*?))?\s*-->\s*$/

export const markdown = new MarkdownIt({ html: true })

/**
 * Reads a deck. A line `---` begins a slide, and each slide begins with its heading (`#` on the first, `##` on the others).
 * Throws DeckError for a slide without a heading or with two, for HTML, images, and for commands written into a slide.
 */
export function readDeck(name: string, text: string): Deck {
  const tokens = markdown.parse(text, {})
  const parts: Token[][] = [[]]
  for (const token of tokens) {
    if (token.type === 'hr') parts.push([])
    else parts.at(-1)?.push(token)
  }
  const slides = parts.map((part, index) => readSlide(name, part, index))
  return { name, title: slides[0]?.title ?? name, slides }
}

function readSlide(deck: string, tokens: readonly Token[], index: number): Slide {
  const line = (tokens[0]?.map?.[0] ?? 0) + 1
  const level = index === 0 ? 1 : 2
  const [open, titleText, close, ...rest] = tokens
  if (open?.type !== 'heading_open' || open.tag !== `h${level}` || !titleText || !close) {
    throw new DeckError(
      `slides/${deck}.md:${line}: slide ${index + 1} must begin with a heading "${'#'.repeat(level)} …".`,
    )
  }
  const slide: Slide = {
    title: plainText([titleText]),
    titleTokens: [titleText],
    level,
    blocks: [],
    notes: [],
    line,
  }
  for (const token of rest) addToken(deck, slide, token)
  return slide
}

function addToken(deck: string, slide: Slide, token: Token): void {
  const line = (token.map?.[0] ?? slide.line - 1) + 1
  const at = `slides/${deck}.md:${line}`
  if (token.type === 'heading_open')
    throw new DeckError(`${at}: "${slide.title}" has a second heading; begin a new slide with a line "---".`)
  if (token.type === 'html_block') {
    const directive = readDirective(token.content.trim(), line)
    if (!directive)
      throw new DeckError(
        `${at}: "${token.content.trim().slice(0, 40)}" is HTML; a slide is markdown and <!-- name: … -->.`,
      )
    if (directive.kind === 'notes') slide.notes = markdown.parse(COMMENT.exec(token.content.trim())?.[2] ?? '', {})
    else slide.blocks.push({ directive })
    return
  }
  if (token.type === 'fence' && /^bash\b/.test(token.info)) {
    throw new DeckError(
      `${at}: commands come from the lab's text, by <!-- fence: 02-ipvs/web#1 -->, so that tests run them.`,
    )
  }
  for (const child of token.children ?? []) {
    if (child.type === 'html_inline' || child.type === 'image') {
      throw new DeckError(`${at}: "${child.content.slice(0, 40)}" can't be in a slide; use <!-- figure: … -->.`)
    }
  }
  const last = slide.blocks.at(-1)
  if (last && 'tokens' in last) last.tokens.push(token)
  else slide.blocks.push({ tokens: [token] })
}

function readDirective(text: string, line: number): Directive | undefined {
  const match = COMMENT.exec(text)
  const kind = match?.[1]
  if (kind === undefined) return undefined
  const words = (match?.[2] ?? '').split(/\s+/).filter((word) => word !== '')
  const pair = /^([a-z]+)=(.*)$/
  const options = new Map(
    words.flatMap((word) => (pair.test(word) ? [word.split(/=(.*)/s, 2) as [string, string]] : [])),
  )
  return { kind, name: words.filter((word) => !pair.test(word)).join(' '), options, line }
}

/** The words of inline tokens, without marks. */
function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => (token.children ? plainText(token.children) : token.type === 'softbreak' ? ' ' : token.content))
    .join('')
}
