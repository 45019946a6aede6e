import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { which } from 'zx/core'
import { unpackPackages } from '../../embedded/index.ts'
import { ensureArtifact } from '../../host/artifact.ts'
import { cacheFolder } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { GEOMETRY } from './style.ts'

const NAMES = [
  'chromium',
  'chromium-browser',
  'chromium-headless-shell',
  'google-chrome-stable',
  'google-chrome',
]

/**
 * Starts the Chromium of a tree of packages, wherever the tree is: with the libraries that the
 * system lacks, and with the tree's fonts, so that a page looks the same on every machine. The
 * package's own script would start the one in /usr/lib.
 */
const RUN = `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for folder in "$here"/../usr/lib/*-linux-gnu; do
  LD_LIBRARY_PATH=$folder:$folder/pulseaudio\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/../usr/lib/chromium/chromium-headless-shell" "$@"
`

const prefer = (generic: string, family: string) =>
  `<alias binding="strong"><family>${generic}</family><prefer><family>${family}</family></prefer></alias>`

const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<dir prefix="relative">../usr/share/fonts</dir>
<cachedir prefix="xdg">fontconfig</cachedir>
${prefer('system-ui', 'Inter')}
${prefer('sans-serif', 'Inter')}
${prefer('monospace', 'DejaVu Sans Mono')}
${prefer('ui-monospace', 'DejaVu Sans Mono')}
</fontconfig>
`

/**
 * Starts the Chromium of this machine: `CHROMIUM`, else the first on PATH under a usual name, else
 * Debian's, unpacked into the cache without root (about 100 MB are fetched, once).
 * @throws Error in a sentence where it can't be fetched (Ubuntu has no such package) or started
 */
export async function startChromium(progress: Progress): Promise<Browser> {
  const executablePath = (await installedChromium()) ?? (await unpackedChromium(progress))
  // Its sandbox is left out: it needs namespaces, which a container often forbids; the pages are
  // our own and load nothing.
  return await chromium.launch({ executablePath, args: ['--disable-gpu', '--disable-quic'] })
}

async function installedChromium(): Promise<string | undefined> {
  const { CHROMIUM } = process.env
  for (const name of CHROMIUM ? [CHROMIUM] : NAMES) {
    const path = await which(name, { nothrow: true })
    if (path) return path
  }
  if (CHROMIUM) throw new Error(`"${CHROMIUM}" (CHROMIUM) is no program.`)
  return undefined
}

async function unpackedChromium(progress: Progress): Promise<string> {
  const packages = ['chromium-headless-shell', 'fonts-inter', 'fonts-dejavu-core']
  const tree = await unpackPackages(
    { cache: cacheFolder, name: 'chromium', packages, closure: 'missing' },
    progress,
  )
  const make = async (fresh: string) => {
    mkdirSync(fresh)
    writeFileSync(join(fresh, 'chromium'), RUN, { mode: 0o755 })
    writeFileSync(join(fresh, 'fonts.conf'), FONTS)
  }
  await ensureArtifact({ path: join(tree, 'run'), parts: [RUN, FONTS], make })
  return join(tree, 'run/chromium')
}

/**
 * A browser's measurements of one slide, in px: the height of heading and content, and the overflow
 * to the right.
 */
export interface Measured {
  slide: number
  needs: number
  overflowRight: number
}

const MEASURE = `[...document.querySelectorAll('.slide')].map((slide, index) => {
  const sheet = slide.querySelector('.sheet').getBoundingClientRect()
  const heading = slide.querySelector('h1, h2')
  const title = heading.getBoundingClientRect().height + parseFloat(getComputedStyle(heading).marginBottom)
  const content = slide.querySelector('.content').getBoundingClientRect().height
  const rights = [...slide.querySelectorAll('.sheet *')].map((part) => part.getBoundingClientRect().right)
  return { slide: index + 1, needs: title + content, overflowRight: Math.max(0, ...rights) - sheet.right }
})`

/** Measures the slides of a page in a window of this width. */
export async function measureSlides(
  browser: Browser,
  html: string,
  width: number,
): Promise<Measured[]> {
  return await withPage(browser, html, width, (page) => page.evaluate<Measured[]>(MEASURE))
}

/** Prints a page as PDF, one slide per sheet. */
export async function printSlides(browser: Browser, html: string): Promise<Buffer> {
  const options = { preferCSSPageSize: true, printBackground: true, tagged: true }
  return await withPage(browser, html, GEOMETRY.width, (page) => page.pdf(options))
}

async function withPage<Value>(
  browser: Browser,
  html: string,
  width: number,
  use: (page: Page) => Promise<Value>,
) {
  const page = await browser.newPage({ viewport: { width, height: GEOMETRY.height } })
  try {
    await page.setContent(html)
    await page.evaluate('document.fonts.ready')
    return await use(page)
  } finally {
    await page.close()
  }
}
