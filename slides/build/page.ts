import { createHash } from 'node:crypto'
import { escapeText } from '../figures/canvas.ts'
import type { Deck, Slide } from './deck.ts'
import { geometryStyle, paletteStyle } from './style.ts'

/**
 * The style sheet of every page, and the scripts of a deck: what fits the text to the slides, and
 * what is done then.
 */
export interface DeckTheme {
  style: string
  fit: string
  script: string
}

/**
 * A deck as one self-contained page: readable without scripts or network. Its monospace font is in
 * it, because lines of commands must fit.
 */
export function deckPage(deck: Deck, theme: DeckTheme): string {
  const slides = deck.slides.map((slide, index) => slideSection(slide, index, deck))
  return page(
    deck.title,
    `<header class="toolbar"><a href="index.html">All decks</a><span class="keys">→ next · ← back · Esc all slides · P speaker's view · F full screen</span></header>
<main>
${slides.join('\n')}
</main>
<script>${theme.fit}${theme.script}</script>`,
    theme,
  )
}

/** The page that lists the decks; `pdf` contains the names of those with a PDF. */
export function indexPage(
  decks: readonly Deck[],
  pdf: ReadonlySet<string>,
  theme: DeckTheme,
): string {
  const items = decks.map(({ name, title, slides }) => {
    const print = pdf.has(name) ? ` · <a href="${name}.pdf">PDF</a>` : ''
    return `<li><a href="${name}.html">${escapeText(title)}</a> <small>${slides.length} slides${print}</small></li>`
  })
  return page(
    'Slides',
    `<main class="list"><h1>Slides</h1><ul>\n${items.join('\n')}\n</ul></main>`,
    {
      ...theme,
      fit: '',
      script: '',
    },
  )
}

function page(title: string, body: string, theme: DeckTheme): string {
  const hash = createHash('sha256')
    .update(theme.fit + theme.script)
    .digest('base64')
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; font-src data:; style-src 'unsafe-inline'; script-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'">
<title>${escapeText(title)}</title>
<style>${paletteStyle()}
${geometryStyle()}
${theme.style}</style></head>
<body>
${body}
</body></html>
`
}

function slideSection(
  { level, heading, content, notes }: Slide,
  index: number,
  deck: Deck,
): string {
  const foot =
    level === 1
      ? ''
      : `<footer><span>${escapeText(deck.title)}</span><span>${index + 1}</span></footer>`
  return `<section class="slide${level === 1 ? ' cover' : ''}" id="${index + 1}" aria-label="Slide ${index + 1} of ${deck.slides.length}">
<div class="sheet">
<h${level}>${heading}</h${level}>
<div class="content">
${content}</div>
${foot}
</div>
${notes === '' ? '' : `<details class="notes"><summary>Speaker notes</summary>\n${notes}</details>`}
</section>`
}
