import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { projectRoot } from '../../host/layout.ts'
import { createProgress } from '../../host/progress.ts'
import { type Measured, measureSlides, printSlides, startChromium } from './chromium.ts'
import { type Deck, DeckError, readDeck } from './deck.ts'
import { type DeckTheme, deckPage, indexPage } from './page.ts'
import { CONTENT, GEOMETRY } from './style.ts'

const SLIDES = join(projectRoot, 'slides')

/**
 * The font of commands, in the page: with another one of the machine, lines that fit here are wider
 * than a slide. DejaVu Sans Mono may be passed on with documents; its licence is in the package
 * dejavu-fonts-ttf.
 */
function monospaceFont(): string {
  const file = join(projectRoot, 'node_modules/dejavu-fonts-ttf/ttf/DejaVuSansMono.ttf')
  const data = readFileSync(file).toString('base64')
  return `/* DejaVu Sans Mono, https://dejavu-fonts.github.io/License.html */
@font-face { font-family: "Deck Mono"; font-display: block; src: url("data:font/ttf;base64,${data}") format("truetype") }
`
}

/** Reads slides/theme. */
export function readTheme(): DeckTheme {
  const read = (file: string) => readFileSync(join(SLIDES, 'theme', file), 'utf8')
  return {
    style: `${monospaceFont()}${read('figure.css')}${read('deck.css')}`,
    fit: read('fit.js'),
    script: read('deck.js'),
  }
}

/** Names of all decks, in their order. */
export function deckNames(): string[] {
  return readdirSync(SLIDES)
    .filter((file) => /^\d{2}-.*\.md$/.test(file))
    .map((file) => file.slice(0, -'.md'.length))
    .sort()
}

/**
 * Builds every deck in memory. Throws DeckError that names each broken reference with file and
 * line.
 */
export function buildDecks(): Deck[] {
  const faults: string[] = []
  const decks = deckNames().flatMap((name) => {
    try {
      return [readDeck(name, readFileSync(join(SLIDES, `${name}.md`), 'utf8'))]
    } catch (error) {
      if (!(error instanceof DeckError)) throw error
      faults.push(error.message)
      return []
    }
  })
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
  return decks
}

/** The output folder. */
export const SLIDES_FOLDER = join(projectRoot, 'dist/slides')

const NARROW_WIDTH = 360

interface Written {
  decks: readonly Deck[]
  /** Names of the decks that have a PDF in the folder. */
  pdf: ReadonlySet<string>
  /** The reason if no PDF was printed. */
  without?: string | undefined
}

/**
 * Builds all decks into `folder`: a page for each and an index; unless `print` is false, each slide
 * is measured and a PDF printed; without printing, which takes minutes, existing PDFs of these
 * decks are kept. If Chromium can't be fetched or does not work, `without` has the reason; this is
 * not an error. Throws DeckError for a broken reference or a slide that would be cut off; the
 * folder is then unchanged.
 */
export async function writeSlides(folder = SLIDES_FOLDER, { print = true } = {}): Promise<Written> {
  const decks = buildDecks()
  const theme = readTheme()
  const { printed = new Map(), without } = print ? await printDecks(decks, theme) : {}
  await mkdir(folder, { recursive: true })
  const kept = print ? [] : decks.map(({ name }) => `${name}.pdf`)
  for (const file of await readdir(folder))
    if (!kept.includes(file)) await rm(join(folder, file), { recursive: true, force: true })
  for (const deck of decks)
    await writeFile(join(folder, `${deck.name}.html`), deckPage(deck, theme))
  for (const [name, pdf] of printed) await writeFile(join(folder, `${name}.pdf`), pdf)
  const pdf = new Set(
    (await readdir(folder)).flatMap((file) => /^(.*)\.pdf$/.exec(file)?.[1] ?? []),
  )
  await writeFile(join(folder, 'index.html'), indexPage(decks, pdf, theme))
  return { decks, pdf, without }
}

interface Printed {
  printed?: ReadonlyMap<string, Buffer>
  without?: string
}

/** The PDF of each deck, or the reason why none can be printed here. */
async function printDecks(decks: readonly Deck[], theme: DeckTheme): Promise<Printed> {
  const printed = new Map<string, Buffer>()
  let browser: Browser | undefined
  try {
    browser = await startChromium(createProgress())
    await measureDecks(browser, decks, theme)
    for (const deck of decks)
      printed.set(deck.name, await printSlides(browser, deckPage(deck, { ...theme, script: '' })))
    return { printed }
  } catch (error) {
    if (error instanceof DeckError) throw error
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : error
    return { without: `Chromium does not work here (${reason})` }
  } finally {
    await browser?.close()
  }
}

/** Throws DeckError with file and line of each slide that would be cut off. */
export async function measureDecks(
  browser: Browser,
  decks: readonly Deck[],
  theme: DeckTheme,
): Promise<void> {
  const faults: string[] = []
  for (const deck of decks) {
    const html = deckPage(deck, { ...theme, script: '' })
    for (const width of [GEOMETRY.width, NARROW_WIDTH]) {
      for (const measured of await measureSlides(browser, html, width)) {
        const { slide } = measured
        const where = `slides/${deck.name}.md:${deck.slides[slide - 1]?.line}: slide ${slide}`
        for (const fault of cutOffs(measured, width)) faults.push(`${where} ${fault}.`)
      }
    }
  }
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
}

/** What of a slide would be cut off at this width. A narrow page is as long as needed. */
function* cutOffs({ needs, overflowRight }: Measured, width: number): Generator<string> {
  if (overflowRight > 1)
    yield `overflows by ${Math.ceil(overflowRight)} px to the right at a width of ${width}`
  if (width === GEOMETRY.width && needs > CONTENT.height)
    yield `needs ${Math.ceil(needs)} px and has ${CONTENT.height}; split it into two slides`
}
