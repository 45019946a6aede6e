import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { which } from 'zx/core'
import { unpackPackages } from '../../embedded/index.ts'
import { cacheFolder } from '../../host/layout.ts'
import { createProgress } from '../../host/progress.ts'
import { printSlides, startChromium } from '../../slides/build/chromium.ts'
import { readDeck, type Slide } from '../../slides/build/deck.ts'
import { deckPage } from '../../slides/build/page.ts'
import { type Colour, GEOMETRY, PALETTE } from '../../slides/build/style.ts'
import { buildDecks, measureDecks, readTheme } from '../../slides/build/write.ts'

const run = promisify(execFile)

/** The colours of bars, by their class in a drawing. */
const BARS: readonly (readonly [tone: string, colour: Colour])[] = [
  ['path', 'path'],
  ['strong', 'strong'],
  ['bad', 'badline'],
]

/** The area of a slide's bars by colour, in px of a slide 1280 wide. */
function barAreas({ content }: Slide): Map<Colour, number> {
  const drawings = content.match(/<svg class="wide".*?<\/svg>/gs)?.join() ?? ''
  const areas = BARS.map(([tone, colour]) => {
    const bars = drawings.matchAll(
      new RegExp(`<rect class="bar ${tone}"[^>]* width="([\\d.]+)" height="([\\d.]+)"`, 'g'),
    )
    return [
      colour,
      [...bars].reduce((sum, [, width, height]) => sum + Number(width) * Number(height), 0),
    ] as const
  })
  return new Map(areas.filter(([, area]) => area > 0))
}

/**
 * A picture's pixels: how many of each colour `#rrggbb`, and the colours of its outermost lines.
 */
interface Painted {
  width: number
  height: number
  colours: Record<string, number>
  edge: string[]
}

/** Runs in the browser, which can decode a PNG. */
const COUNT_PIXELS = `async (png) => {
  const picture = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob())
  const { width, height } = picture
  const context = new OffscreenCanvas(width, height).getContext('2d')
  context.drawImage(picture, 0, 0)
  const colourOf = (at) => '#' + [...data.subarray(at * 4, at * 4 + 3)].map((part) => part.toString(16).padStart(2, '0')).join('')
  const { data } = context.getImageData(0, 0, width, height)
  const firsts = new Map()
  const counts = new Map()
  const edge = new Set()
  for (const [at, pixel] of new Uint32Array(data.buffer).entries()) {
    if (!counts.has(pixel)) firsts.set(pixel, at)
    counts.set(pixel, (counts.get(pixel) ?? 0) + 1)
    const [x, y] = [at % width, Math.floor(at / width)]
    if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2) edge.add(pixel)
  }
  const named = (pixel) => colourOf(firsts.get(pixel))
  const colours = Object.fromEntries([...counts].map(([pixel, count]) => [named(pixel), count]))
  return { width, height, colours, edge: [...edge].map(named) }
}`

/** The slides of all decks as one deck: one start of the browser prints them all. */
const whole = {
  name: 'all',
  title: 'All decks',
  slides: buildDecks().flatMap(({ slides }) => slides),
}
const theme = readTheme()
const folder = mkdtempSync(join(tmpdir(), 'painted-'))
let browser: Browser
let page: Page
let counter: Page

beforeAll(async () => {
  browser = await startChromium(createProgress())
  page = await browser.newPage({ viewport: { width: GEOMETRY.width, height: GEOMETRY.height } })
  counter = await browser.newPage()
})
afterAll(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true })
})

const paintedIn = (png: Buffer) =>
  counter.evaluate<Painted>(`(${COUNT_PIXELS})("${png.toString('base64')}")`)

/** The pages of a PDF, 480 px wide, by pdftoppm: of this system, or unpacked into the cache. */
async function pdfPictures(pdf: string): Promise<Buffer[]> {
  const scaled = ['-png', '-scale-to-x', '480', '-scale-to-y', '-1', pdf, join(folder, 'page')]
  if (await which('pdftoppm', { nothrow: true })) await run('pdftoppm', scaled)
  else {
    const poppler = {
      cache: cacheFolder,
      name: 'poppler',
      packages: ['poppler-utils'],
      closure: 'missing',
    } as const
    const tree = await unpackPackages(poppler, createProgress())
    const libraries = readdirSync(join(tree, 'usr/lib')).map((name) => join(tree, 'usr/lib', name))
    const env = { ...process.env, LD_LIBRARY_PATH: libraries.join(':') }
    await run(join(tree, 'usr/bin/pdftoppm'), scaled, { env })
  }
  const files = readdirSync(folder).filter((file) => file.startsWith('page-'))
  const pictures = files.sort().map((file) => readFileSync(join(folder, file)))
  for (const file of files) rmSync(join(folder, file))
  return pictures
}

/** What of the bars' areas is not painted at a scale: a line for each colour. */
function unpainted(slide: Slide, { colours }: Pick<Painted, 'colours'>, scale: number): string[] {
  return [...barAreas(slide)]
    .map(([colour, area]) => ({
      colour,
      wanted: area * scale ** 2,
      found: colours[PALETTE[colour]] ?? 0,
    }))
    .filter(({ wanted, found }) => found < wanted * 0.8)
    .map(
      ({ colour, wanted, found }) =>
        `"${slide.title}": ${found} px of ${Math.round(wanted)} are ${colour}`,
    )
}

test('the decks contain bars of every colour', () => {
  const areas = whole.slides.map(barAreas).filter(({ size }) => size > 0)
  expect(areas.length).toBeGreaterThanOrEqual(8)
  expect(new Set(areas.flatMap((area) => [...area.keys()]))).toEqual(
    new Set(BARS.map(([, colour]) => colour)),
  )
})

test.each([
  ['shown', '', 1],
  ["in the speaker's view", 'presenter-', 0.6],
])('the bars of every figure are painted when %s', async (_, view, scale) => {
  const file = join(folder, 'decks.html')
  writeFileSync(file, deckPage(whole, theme))
  // Another view needs another start of the page's script; another slide does not.
  await page.goto('about:blank')
  for (const [index, slide] of whole.slides.entries()) {
    if (barAreas(slide).size === 0) continue
    await page.goto(`file://${file}#${view}${index + 1}`)
    expect(unpainted(slide, await paintedIn(await page.screenshot()), scale)).toEqual([])
  }
})

test('commands are shown in the font of the page, whatever fonts this machine has', async () => {
  const file = join(folder, 'decks.html')
  // A machine whose monospace fonts are all as wide as a proportional one.
  const style = theme.style.replaceAll(/ui-monospace, [^;]*monospace;/g, 'system-ui;')
  expect(style).not.toBe(theme.style)
  writeFileSync(file, deckPage(whole, { ...theme, style }))
  await page.goto('about:blank')
  await page.goto(`file://${file}#all`)
  await page.evaluate('document.fonts.ready')
  const widths = await page.evaluate<number[]>(`['iiii', 'mmmm', '→│✓─'].map((text) => {
    const code = document.querySelector('pre code, pre').cloneNode()
    code.textContent = text
    code.style.cssText = 'position: absolute; font-size: 100px; padding: 0; white-space: pre'
    document.body.append(code)
    return Math.round(code.getBoundingClientRect().width)
  })`)
  // 0.602 em, which hinting may round.
  expect(widths.map((width) => Math.floor(width / 10))).toEqual([24, 24, 24])
  expect(new Set(widths).size).toBe(1)
})

test('no line of commands is broken by the browser: it could not be copied', async () => {
  const file = join(folder, 'decks.html')
  writeFileSync(file, deckPage(whole, theme))
  await page.goto('about:blank')
  await page.goto(`file://${file}#all`)
  await page.evaluate('document.fonts.ready')
  const broken = await page.evaluate<
    string[]
  >(`[...document.querySelectorAll('pre')].flatMap((pre) => {
    const { lineHeight, paddingTop } = getComputedStyle(pre)
    const lines = (pre.clientHeight - 2 * parseFloat(paddingTop)) / parseFloat(lineHeight)
    return Math.round(lines) > pre.textContent.split('\\n').length ? [pre.textContent] : []
  })`)
  expect(broken).toEqual([])
})

test('a slide that is too full is reported with its line, and no other', async () => {
  const items = (count: number) =>
    Array.from({ length: count }, (_, item) => `- item ${item}`).join('\n')
  const text = `# Deck\n\n---\n\n## Fits\n\n${items(8)}\n\n---\n\n## Full\n\n${items(14)}\n`
  const measured = measureDecks(browser, [readDeck('99-test', text)], theme)
  await expect(measured).rejects.toThrow(
    /^slides\/99-test\.md:18: slide 3 needs \d+ px and has 624; [^\n]*$/,
  )
})

test('the PDF has the bars of every figure, no blank page, and nothing at the edge of a page', async () => {
  const pdf = join(folder, 'decks.pdf')
  writeFileSync(pdf, await printSlides(browser, deckPage(whole, { ...theme, script: '' })))
  const pictures = await pdfPictures(pdf)
  expect(pictures).toHaveLength(whole.slides.length)
  const faults: string[] = []
  for (const [index, slide] of whole.slides.entries()) {
    const { width, height, colours, edge } = await paintedIn(pictures[index] as Buffer)
    const ground = PALETTE[slide.level === 1 ? 'night' : 'paper']
    const ink = 1 - (colours[ground] ?? 0) / (width * height)
    faults.push(...unpainted(slide, { colours }, width / GEOMETRY.width))
    if (ink < 0.02)
      faults.push(`"${slide.title}" is blank: ${(ink * 100).toFixed(1)} % are painted`)
    if (edge.some((colour) => colour !== ground))
      faults.push(`"${slide.title}" is painted up to its edge: ${edge}`)
  }
  expect(faults).toEqual([])
})
