// Writes specimens.json again, with a Chromium of this system, whose fonts are DejaVu's: CHROMIUM=/path node --import tsx test/slides/measure-specimens.ts

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findChromium, MEASURING_SCRIPT, measurePage } from '../../slides/build/chromium.ts'
import { fillDeck } from '../../slides/build/content.ts'
import { readDeck } from '../../slides/build/deck.ts'
import { deckPage } from '../../slides/build/page.ts'
import { readTheme } from '../../slides/build/write.ts'

const here = import.meta.dirname
const chromium = await findChromium()
if (!chromium) throw new Error('No Chromium was found; CHROMIUM=/path names one.')
const deck = fillDeck(readDeck('specimens', readFileSync(join(here, 'specimens.md'), 'utf8')))
const page = deckPage(deck, { ...readTheme(), script: MEASURING_SCRIPT })
const found = await measurePage(chromium, page, 1280)
const heights = found.map(({ slide, needs }) => ({
  title: deck.slides[slide - 1]?.title,
  px: Math.round(needs * 10) / 10,
}))
writeFileSync(join(here, 'specimens.json'), `${JSON.stringify(heights, null, 2)}\n`)
