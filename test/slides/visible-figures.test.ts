import { expect, test } from 'vitest'
import { deckPage } from '../../slides/build/page.ts'
import { buildDecks, readTheme } from '../../slides/build/write.ts'

/** The classes that the last part of each selector names, of every rule that takes an element off the page. */
function hiddenClasses(style: string): Set<string> {
  const classes = new Set<string>()
  for (const [, selectors = '', body = ''] of style.matchAll(/([^{}]+)\{([^{}]*)\}/g)) {
    if (!/display:\s*none|visibility:\s*hidden|opacity:\s*0(?![.\d])/.test(body)) continue
    for (const selector of selectors.replace(/\/\*.*?\*\//gs, '').split(',')) {
      const target =
        selector
          .replace(/:not\([^)]*\)/g, '')
          .trim()
          .split(/[\s>+~]+/)
          .at(-1) ?? ''
      for (const [, name = ''] of target.matchAll(/\.([\w-]+)/g)) classes.add(name)
    }
  }
  return classes
}

/** The classes of the shapes within the pictures of a page. */
function drawnClasses(page: string): Set<string> {
  const classes = new Set<string>()
  for (const [, body = ''] of page.matchAll(/<svg[^>]*>(.*?)<\/svg>/gs))
    for (const [, names = ''] of body.matchAll(/class="([^"]*)"/g))
      for (const name of names.split(' ')) classes.add(name)
  return classes
}

test('no rule of the theme hides what a figure draws: shown, for the speaker or in print', () => {
  const theme = readTheme()
  const drawn = new Set(buildDecks().flatMap((deck) => [...drawnClasses(deckPage(deck, theme))]))
  const hidden = hiddenClasses(theme.style)
  expect([...drawn]).toEqual(expect.arrayContaining(['bar', 'arrow']))
  expect([...hidden]).toEqual(expect.arrayContaining(['toolbar', 'notes']))
  expect([...hidden].filter((name) => drawn.has(name))).toEqual([])
})
