import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { type BuiltDeck, fillDeck } from './content.ts'
import { DeckError, readDeck } from './deck.ts'
import { findOverflows } from './overflow.ts'
import type { Theme } from './page.ts'

const SLIDES = join(projectRoot, 'slides')

/** Reads slides/theme. */
export function readTheme(): Theme {
  const read = (file: string) => readFileSync(join(SLIDES, 'theme', file), 'utf8')
  return { style: read('deck.css'), script: read('deck.js') }
}

/** Names of all decks, in their order. */
export function deckNames(): string[] {
  return readdirSync(SLIDES)
    .filter((file) => /^\d{2}-.*\.md$/.test(file))
    .map((file) => file.slice(0, -'.md'.length))
    .sort()
}

/**
 * Builds every deck in memory. Throws DeckError that names each broken reference, and each slide that would be cut off by the
 * estimate, with file and line.
 */
export function buildDecks(names: readonly string[] = deckNames()): BuiltDeck[] {
  const faults: string[] = []
  const decks = names.flatMap((name) => {
    try {
      return [fillDeck(readDeck(name, readFileSync(join(SLIDES, `${name}.md`), 'utf8')))]
    } catch (error) {
      if (!(error instanceof DeckError)) throw error
      faults.push(error.message)
      return []
    }
  })
  for (const { deck, line, title, needs, has } of decks.flatMap(findOverflows)) {
    faults.push(
      `slides/${deck}.md:${line}: "${title}" needs ${Math.ceil(needs)} px and has ${has}; make two slides of it.`,
    )
  }
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
  return decks
}
