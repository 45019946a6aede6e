import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, firefox } from 'playwright-core'
import { which } from 'zx/core'
import { unpackPackages } from '../../../embedded/index.ts'
import { ensureArtifact } from '../../../host/artifact.ts'
import { cacheFolder } from '../../../host/layout.ts'
import type { Progress } from '../../../host/progress.ts'

/** Passes the protocol on, because Debian's Firefox is older than Playwright expects. */
const PASS_ON = join(import.meta.dirname, 'older-firefox.mjs')

/** What starts the Firefox of a tree of packages. */
const RUN = readFileSync(join(import.meta.dirname, 'unpacked-firefox.sh'), 'utf8')

/**
 * Starts the Firefox of this machine: the first on PATH, else Debian's, unpacked into the cache
 * without root (about 100 MB are fetched, once). Playwright drives it by WebDriver BiDi.
 * @throws Error in a sentence where it can't be fetched or started
 */
export async function startFirefox(progress: Progress): Promise<Browser> {
  const installed =
    (await which('firefox-esr', { nothrow: true })) ?? (await which('firefox', { nothrow: true }))
  return firefox.launch({
    channel: 'moz-firefox',
    executablePath: PASS_ON,
    env: { ...process.env, FIREFOX: installed ?? (await unpackedFirefox(progress)) },
  })
}

async function unpackedFirefox(progress: Progress): Promise<string> {
  const tree = await unpackPackages(
    { cache: cacheFolder, name: 'firefox', packages: ['firefox-esr'], closure: 'missing' },
    progress,
  )
  const make = async (fresh: string) => {
    mkdirSync(fresh)
    writeFileSync(join(fresh, 'firefox'), RUN, { mode: 0o755 })
  }
  await ensureArtifact({ path: join(tree, 'run'), parts: [RUN], make })
  return join(tree, 'run/firefox')
}
