import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { which } from 'zx/core'

const run = promisify(execFile)
const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']
const DEADLINE_MS = 60_000

/** What a browser measured for one slide, in px: the height of heading and content, and the overflow to the right. */
export interface Measured {
  slide: number
  needs: number
  sticksOut: number
}

const measuredSchema = z.array(z.object({ slide: z.number(), needs: z.number(), sticksOut: z.number() }))

/** The script of a page that is opened only for measuring: it writes the result into the document. */
export const MEASURING_SCRIPT = `addEventListener('load', () => {
  const slides = [...document.querySelectorAll('.slide')].map((slide, index) => {
    const sheet = slide.querySelector('.sheet').getBoundingClientRect()
    const heading = slide.querySelector('h1, h2')
    const title = heading.getBoundingClientRect().height + parseFloat(getComputedStyle(heading).marginBottom)
    const content = slide.querySelector('.content').getBoundingClientRect().height
    const rights = [...slide.querySelectorAll('.sheet *')].map((part) => part.getBoundingClientRect().right)
    return { slide: index + 1, needs: title + content, sticksOut: Math.max(0, ...rights) - sheet.right }
  })
  document.body.dataset.measured = JSON.stringify(slides)
})`

/** The Chromium of this machine: `CHROMIUM`, or the first on PATH under a usual name; undefined if there is none. */
export async function findChromium(): Promise<string | undefined> {
  for (const name of process.env.CHROMIUM ? [process.env.CHROMIUM] : NAMES) {
    const path = await which(name, { nothrow: true })
    if (path) return path
  }
  return undefined
}

/**
 * Measures a page whose script is MEASURING_SCRIPT, in a window of this width. Throws Error if the browser returns no result.
 */
export async function measurePage(chromium: string, html: string, width: number): Promise<Measured[]> {
  return await withFolder(async (folder) => {
    const page = join(folder, 'page.html')
    await writeFile(page, html)
    const { stdout } = await run(
      chromium,
      [...flags(folder), `--window-size=${width},720`, '--dump-dom', `file://${page}`],
      options,
    )
    const found = /data-measured="([^"]*)"/.exec(stdout)?.[1]
    if (found === undefined) throw new Error(`"${chromium}" did not measure the slides`)
    return measuredSchema.parse(JSON.parse(found.replaceAll('&quot;', '"')))
  })
}

/** Prints a page as PDF, one slide per sheet. */
export async function printPage(chromium: string, html: string): Promise<Buffer> {
  return await withFolder(async (folder) => {
    const page = join(folder, 'page.html')
    const file = join(folder, 'page.pdf')
    await writeFile(page, html)
    await run(
      chromium,
      [...flags(folder), '--no-pdf-header-footer', `--print-to-pdf=${file}`, `file://${page}#all`],
      options,
    )
    return await readFile(file)
  })
}

const options = { timeout: DEADLINE_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 * 1024 } as const

function flags(folder: string): string[] {
  // Chromium refuses to run as root with its sandbox; the page is our own and loads nothing.
  const root = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return [
    '--headless',
    '--disable-gpu',
    '--hide-scrollbars',
    '--disable-extensions',
    `--user-data-dir=${folder}`,
    ...root,
  ]
}

async function withFolder<Value>(use: (folder: string) => Promise<Value>): Promise<Value> {
  const folder = await mkdtemp(join(tmpdir(), 'slides-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}
