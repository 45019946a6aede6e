import { chromium, type Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { chromiumFlags, findChromium } from '../../slides/build/chromium.ts'
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

const theme = readTheme()
const pages = buildDecks().map((deck) => ({ deck, html: deckPage(deck, theme) }))

test('no rule of the theme hides what a figure draws: shown, for the speaker or in print', () => {
  const drawn = new Set(pages.flatMap(({ html }) => [...drawnClasses(html)]))
  const hidden = hiddenClasses(theme.style)
  expect([...drawn]).toEqual(expect.arrayContaining(['bar', 'arrow']))
  expect([...hidden]).toEqual(expect.arrayContaining(['toolbar', 'notes']))
  expect([...hidden].filter((name) => drawn.has(name))).toEqual([])
})

/** How many pixels of a PNG have this colour; `page` decodes it. */
async function pixelsOf(page: Page, png: Buffer, colour: string): Promise<number> {
  return await page.evaluate<number>(`(async () => {
    const image = new Image()
    image.src = 'data:image/png;base64,${png.toString('base64')}'
    await image.decode()
    const canvas = new OffscreenCanvas(image.width, image.height)
    const context = canvas.getContext('2d')
    context.drawImage(image, 0, 0)
    const pixels = new DataView(context.getImageData(0, 0, image.width, image.height).data.buffer)
    let found = 0
    for (let at = 0; at < pixels.byteLength; at += 4) if (pixels.getUint32(at) === 0x${colour.slice(1)}ff) found++
    return found
  })()`)
}

const executablePath = await findChromium()

test.skipIf(executablePath === undefined)(
  'a browser paints the bars of every figure, shown and for the speaker',
  async () => {
    const browser = await chromium.launch({ executablePath: executablePath ?? '', args: await chromiumFlags() })
    const viewport = { width: 1280, height: 720 }
    let painted = 0
    try {
      const reader = await browser.newPage()
      for (const { deck, html } of pages) {
        const figures = deck.slides.flatMap(({ contents }, index) =>
          contents.flatMap((content) => (content.kind === 'figure' ? [{ index, body: content.figure.wide.body }] : [])),
        )
        for (const { index, body } of figures) {
          const bars = [...body.matchAll(/<rect class="bar path"[^>]* width="([\d.]+)" height="([\d.]+)"/g)]
          const area = bars.reduce((sum, [, width, height]) => sum + Number(width) * Number(height), 0)
          if (area === 0) continue
          for (const [hash, share] of [
            [`#${index + 1}`, 0.9],
            [`#presenter-${index + 1}`, 0.05],
          ] as const) {
            const page = await browser.newPage({ viewport })
            await page.route('http://deck/', (route) => route.fulfill({ contentType: 'text/html', body: html }))
            await page.goto(`http://deck/${hash}`)
            const found = await pixelsOf(reader, await page.screenshot(), PALETTE.path)
            expect(found, `${deck.name} ${hash}`).toBeGreaterThan(area * share)
            await page.close()
            painted++
          }
        }
      }
    } finally {
      await browser.close()
    }
    expect(painted).toBeGreaterThan(8)
  },
)
