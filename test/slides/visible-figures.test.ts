import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { findChromium } from '../../slides/build/chromium.ts'
import { deckPage } from '../../slides/build/page.ts'
import { PALETTE } from '../../slides/build/palette.ts'
import { buildDecks, readTheme } from '../../slides/build/write.ts'

/** The classes that the last part of each selector names, of every rule that hides an element. */
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

/** The classes of the shapes in the figures of a page. */
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

/** The colours of a PNG's pixels, `r,g,b` → how many (8 bits a channel, as Chromium writes them; RFC 2083). */
function paintedColours(png: Buffer): Map<string, number> {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  const channels = png[25] === 6 ? 4 : 3
  const parts: Buffer[] = []
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  const data = inflateSync(Buffer.concat(parts))
  const row = width * channels
  let above = Buffer.alloc(row)
  const colours = new Map<string, number>()
  for (let y = 0; y < height; y++) {
    const filter = data[y * (row + 1)]
    const line = data.subarray(y * (row + 1) + 1, (y + 1) * (row + 1))
    for (let x = 0; x < row; x++) {
      const [a, b, c] = [line[x - channels] ?? 0, above[x] ?? 0, x < channels ? 0 : (above[x - channels] ?? 0)]
      const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)]
      const paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c
      const add = [0, a, b, (a + b) >> 1, paeth][filter ?? 0] ?? 0
      line[x] = ((line[x] ?? 0) + add) & 255
    }
    for (let x = 0; x < row; x += channels) {
      const colour = `${line[x]},${line[x + 1]},${line[x + 2]}`
      colours.set(colour, (colours.get(colour) ?? 0) + 1)
    }
    above = line
  }
  return colours
}

const rgb = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join()
const chromium = await findChromium()

test.skipIf(chromium === undefined)('a browser paints the bars of every figure, shown and for the speaker', () => {
  const folder = mkdtempSync(join(tmpdir(), 'painted-'))
  let painted = 0
  try {
    const theme = readTheme()
    for (const deck of buildDecks()) {
      const page = join(folder, `${deck.name}.html`)
      writeFileSync(page, deckPage(deck, theme))
      for (const [index, slide] of deck.slides.entries())
        for (const content of slide.contents) {
          if (content.kind !== 'figure') continue
          const bars = [
            ...content.figure.wide.body.matchAll(/<rect class="bar path"[^>]* width="([\d.]+)" height="([\d.]+)"/g),
          ]
          const area = bars.reduce((sum, [, width, height]) => sum + Number(width) * Number(height), 0)
          if (area === 0) continue
          for (const [hash, share] of [
            [`#${index + 1}`, 0.9],
            [`#presenter-${index + 1}`, 0.05],
          ] as const) {
            const file = join(folder, 'shot.png')
            const flags = ['--headless', '--disable-gpu', '--hide-scrollbars', '--no-sandbox', '--window-size=1280,720']
            execFileSync(chromium ?? '', [...flags, `--screenshot=${file}`, `file://${page}${hash}`], {
              stdio: 'ignore',
            })
            const found = paintedColours(readFileSync(file)).get(rgb(PALETTE.path)) ?? 0
            expect(found, `${deck.name} ${hash}`).toBeGreaterThan(area * share)
            painted++
          }
        }
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
  expect(painted).toBeGreaterThan(8)
})
