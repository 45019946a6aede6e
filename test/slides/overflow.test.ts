import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { fillDeck } from '../../slides/build/content.ts'
import { readDeck } from '../../slides/build/deck.ts'
import { slideHeight, textScale } from '../../slides/build/overflow.ts'
import { textWidth, wrapText } from '../../slides/build/text-width.ts'

const read = (file: string) => readFileSync(join(import.meta.dirname, file), 'utf8')
const deck = fillDeck(readDeck('specimens', read('specimens.md')))
/** Chromium's measurements of the same slides, with DejaVu: see measure-specimens.ts. */
const measured = z.array(z.object({ title: z.string(), px: z.number() })).parse(JSON.parse(read('specimens.json')))

test('every specimen is unchanged since it was measured', () => {
  expect(measured.map(({ title }) => title)).toEqual(deck.slides.map(({ title }) => title))
})

test.each(measured.map(({ title, px }, index) => [title, px, index] as const))(
  'the estimate of "%s" is never less than its %s px, and not much more',
  (_, px, index) => {
    const slide = deck.slides[index]
    if (!slide) throw new Error('no such specimen')
    const estimate = slideHeight(slide, textScale(slide))
    expect(estimate).toBeGreaterThanOrEqual(px)
    expect(estimate).toBeLessThanOrEqual(px * 1.25 + 60)
  },
)

test('the specimens have several sizes of text', () => {
  expect(new Set(deck.slides.slice(1).map(textScale)).size).toBeGreaterThanOrEqual(4)
})

test('no wrapped line is too wide, and no character is lost', () => {
  const text = 'a KUBE-SVC-LOLE4ISW44XBNF3G chain and WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW more'
  for (const width of [60, 150, 400, 2000]) {
    const lines = wrapText(text, width, 24, 'mono')
    expect(lines.every((line) => textWidth(line, 24, 'mono') <= width)).toBe(true)
    expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''))
  }
})
