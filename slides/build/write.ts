import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { projectRoot } from '../../cluster/layout.ts'
import { buildDecks, readTheme } from './build.ts'
import { findChromium, MEASURING_SCRIPT, measurePage, printPage } from './chromium.ts'
import type { BuiltDeck } from './content.ts'
import { DeckError } from './deck.ts'
import { CONTENT, GEOMETRY } from './geometry.ts'
import { deckPage, indexPage, type Theme } from './page.ts'

/** Where the decks are built to. */
export const SLIDES_FOLDER = join(projectRoot, 'dist/slides')

const TELEPHONE = 360

export interface Written {
  decks: { name: string; slides: number }[]
  /** Names of the decks that were printed as PDF. */
  pdf: Set<string>
  /** Why there is no PDF. */
  without?: string
}

/**
 * Builds all decks into `folder`: a page for each and an index; with a Chromium, each slide is measured and a PDF printed.
 * Throws DeckError for a broken reference or a slide that would be cut off; what stood in the folder is then still there.
 */
export async function writeSlides(folder = SLIDES_FOLDER): Promise<Written> {
  const decks = buildDecks()
  const theme = readTheme()
  const chromium = await findChromium()
  if (chromium) await measureDecks(chromium, decks, theme)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const pdf = new Set<string>()
  for (const deck of decks) {
    const page = deckPage(deck, theme)
    await writeFile(join(folder, `${deck.name}.html`), page)
    if (chromium) {
      await writeFile(
        join(folder, `${deck.name}.pdf`),
        await printPage(chromium, deckPage(deck, { ...theme, script: '' })),
      )
      pdf.add(deck.name)
    }
  }
  await writeFile(join(folder, 'index.html'), indexPage(decks, pdf, theme))
  return {
    decks: decks.map(({ name, slides }) => ({ name, slides: slides.length })),
    pdf,
    ...(chromium ? {} : { without: 'no Chromium is installed' }),
  }
}

async function measureDecks(chromium: string, decks: readonly BuiltDeck[], theme: Theme): Promise<void> {
  const faults: string[] = []
  for (const deck of decks) {
    const html = deckPage(deck, { ...theme, script: MEASURING_SCRIPT })
    for (const width of [GEOMETRY.width, TELEPHONE]) {
      for (const { slide, needs, sticksOut } of await measurePage(chromium, html, width)) {
        const where = `slides/${deck.name}.md:${deck.slides[slide - 1]?.line}: slide ${slide}`
        if (sticksOut > 1)
          faults.push(`${where} sticks out ${Math.ceil(sticksOut)} px to the right at a width of ${width}.`)
        if (width === GEOMETRY.width && needs > CONTENT.height) {
          faults.push(`${where} needs ${Math.ceil(needs)} px and has ${CONTENT.height}; make two slides of it.`)
        }
      }
    }
  }
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
}
