import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { which } from 'zx/core'
import { unpackPackages } from '../../embedded/index.ts'
import { ensureArtifact } from '../../host/artifact.ts'
import { cacheFolder } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'
import { GEOMETRY } from './geometry.ts'

const run = promisify(execFile)
const NAMES = ['chromium', 'chromium-browser', 'chromium-headless-shell', 'google-chrome-stable', 'google-chrome']
const DEADLINE_MS = 60_000

/**
 * Starts the Chromium of a tree of packages, wherever the tree is: with the libraries that the system lacks, and with the tree's
 * fonts, so that a page looks the same on every machine. The package's own script would start the one in /usr/lib.
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

/** A browser's measurements of one slide, in px: the height of heading and content, and the overflow to the right. */
export interface Measured {
  slide: number
  needs: number
  overflowRight: number
}

const measuredSchema = z.array(z.object({ slide: z.number(), needs: z.number(), overflowRight: z.number() }))

/** The script of a page that is only measured: it writes the result into the document. */
export const MEASURING_SCRIPT = `addEventListener('load', () => {
  const slides = [...document.querySelectorAll('.slide')].map((slide, index) => {
    const sheet = slide.querySelector('.sheet').getBoundingClientRect()
    const heading = slide.querySelector('h1, h2')
    const title = heading.getBoundingClientRect().height + parseFloat(getComputedStyle(heading).marginBottom)
    const content = slide.querySelector('.content').getBoundingClientRect().height
    const rights = [...slide.querySelectorAll('.sheet *')].map((part) => part.getBoundingClientRect().right)
    return { slide: index + 1, needs: title + content, overflowRight: Math.max(0, ...rights) - sheet.right }
  })
  document.body.dataset.measured = JSON.stringify(slides)
})`

const unpacked = join(cacheFolder, 'packages/chromium')
const starter = join(unpacked, 'run/chromium')

/** The Chromium of this machine: `CHROMIUM`, the first on PATH under a usual name, or the one that ensureChromium unpacked. */
async function findChromium(): Promise<string | undefined> {
  for (const name of process.env.CHROMIUM ? [process.env.CHROMIUM] : NAMES) {
    const path = await which(name, { nothrow: true })
    if (path) return path
  }
  return process.env.CHROMIUM || !existsSync(starter) ? undefined : starter
}

/**
 * findChromium, and where there is none, Debian's, unpacked into the cache without root (about 100 MB are fetched, once).
 * @throws Error in a sentence where it can't be fetched: Ubuntu has no such package
 */
export async function ensureChromium(progress: Progress): Promise<string> {
  const found = await findChromium()
  if (found !== undefined && found !== starter) return found
  if (process.env.CHROMIUM) throw new Error(`"${process.env.CHROMIUM}" (CHROMIUM) is no program.`)
  const packages = ['chromium-headless-shell', 'fonts-inter', 'fonts-dejavu-core']
  const tree = await unpackPackages({ cache: cacheFolder, name: 'chromium', packages, closure: 'missing' }, progress)
  const make = async (fresh: string) => {
    mkdirSync(fresh)
    writeFileSync(join(fresh, 'chromium'), RUN, { mode: 0o755 })
    writeFileSync(join(fresh, 'fonts.conf'), FONTS)
  }
  await ensureArtifact({ path: join(tree, 'run'), parts: [RUN, FONTS], make })
  return starter
}

/**
 * Measures a page whose script is MEASURING_SCRIPT, in a window of this width. Throws Error if the browser returns no result.
 */
export async function measurePage(chromium: string, html: string, width: number): Promise<Measured[]> {
  return await withPage(html, async (url, folder) => {
    const wanted = [windowSize(width), '--dump-dom', url]
    const { stdout } = await run(chromium, [...(await flags(folder)), ...wanted], options)
    const found = /data-measured="([^"]*)"/.exec(stdout)?.[1]
    if (found === undefined) throw new Error(`"${chromium}" did not measure the slides`)
    return measuredSchema.parse(JSON.parse(found.replaceAll('&quot;', '"')))
  })
}

/** Prints a page as PDF, one slide per sheet. */
export async function printPage(chromium: string, html: string): Promise<Buffer> {
  return await withPage(html, async (url, folder) => {
    const file = join(folder, 'page.pdf')
    const wanted = [windowSize(GEOMETRY.width), '--no-pdf-header-footer', `--print-to-pdf=${file}`, `${url}#all`]
    await run(chromium, [...(await flags(folder)), ...wanted], options)
    return await readFile(file)
  })
}

/**
 * How our Chromium is started: silent, without a GPU, with a user data folder of its own. Its sandbox is left out where it can't be:
 * as root Chromium refuses it, and it needs namespaces, which a container often forbids ordinary users.
 */
export async function chromiumFlags(): Promise<string[]> {
  const sandboxed = process.getuid?.() !== 0 && (await canUnshare())
  return [
    ...['--headless', '--disable-gpu', '--hide-scrollbars', '--disable-extensions', '--disable-dev-shm-usage'],
    ...['--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update'],
    ...['--disable-sync', ...(sandboxed ? [] : ['--no-sandbox'])],
  ]
}

const canUnshare = () =>
  run('unshare', ['--user', '--pid', '--net', '--fork', 'true']).then(
    () => true,
    () => false,
  )

const windowSize = (width: number) => `--window-size=${width},${GEOMETRY.height}`
const options = { timeout: DEADLINE_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 * 1024 } as const

const flags = async (folder: string) => [...(await chromiumFlags()), `--user-data-dir=${folder}`]

/** Writes a page into a temporary folder for the time of its use. */
async function withPage<Value>(html: string, use: (url: string, folder: string) => Promise<Value>): Promise<Value> {
  const folder = await mkdtemp(join(tmpdir(), 'slides-'))
  try {
    await writeFile(join(folder, 'page.html'), html)
    return await use(`file://${folder}/page.html`, folder)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}
