import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { which } from 'zx/core'
import { $ } from '../../host/command.ts'
import { fetchVerified } from '../../host/download.ts'
import { cacheFolder } from '../../host/layout.ts'
import type { Progress } from '../../host/progress.ts'

/** The release that kind.yaml's node image belongs to, with the published checksums. */
export const kindRelease = 'v0.33.0'
const checksums: Record<string, string> = {
  'linux-amd64': 'aee6151561422756b764a4ae28e7f44cda5af5a9eead3cc9985112b1de8d8e0d',
  'linux-arm64': '20022bee6cfcd5086cb7234d218e3454e6090022f2a8f55d1fa7fcf42c3867a2',
  'darwin-amd64': '5a99f26f57246dc9319dd294803313197a0f34d33c525b3ea8b655db5916ece0',
  'darwin-arm64': '0c8c7dbe5e23594a198b786c4bc13dacc101fa6196b0cb0b23a1ca44e61f4b4f',
}

/** The release number in the output of `kind version`, such as `v0.33.0`. */
export function kindVersion(text: string): string | undefined {
  return /\bv\d+\.\d+\.\d+\S*/.exec(text)?.[0]
}

/** The cache to search for kind; tests pass their own. */
export interface KindPlace {
  cache: string
  sum?: string
}

const platformName = `${platform()}-${arch() === 'x64' ? 'amd64' : arch()}`

/** The kind on PATH and its release; undefined if there is none. */
export async function installedKind(): Promise<{ path: string; release: string | undefined } | undefined> {
  const path = await which('kind', { nothrow: true })
  if (!path) return undefined
  const { stdout } = await $({ quiet: true, nothrow: true, timeout: 10_000 })`${path} version`
  return { path, release: kindVersion(stdout) }
}

/** Where the pinned kind is cached. */
export const cachedKind = (cache = cacheFolder) => join(cache, 'bin', `kind-${kindRelease}`)

/**
 * kind in the pinned release: the one on PATH if it has that release, else the one in the cache, fetched and verified by its
 * checksum. `KIND_MIRROR` replaces the address. Another release on PATH is used, with a note, only when the fetch fails.
 * @throws Error in one sentence when there is none and none can be fetched
 */
export async function kindPath(progress: Progress, place: KindPlace = { cache: cacheFolder }): Promise<string> {
  const installed = await installedKind()
  if (installed?.release === kindRelease) return installed.path
  const path = cachedKind(place.cache)
  const sum = place.sum ?? checksums[platformName]
  const mirror = process.env.KIND_MIRROR || 'https://github.com/kubernetes-sigs/kind/releases/download'
  try {
    if (!sum) throw new Error(`No kind is known for "${platformName}".`)
    await fetchVerified(`${mirror}/${kindRelease}/kind-${platformName}`, sum, path, {
      title: `kind ${kindRelease}`,
      progress,
    })
    return path
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    if (!installed)
      throw new Error(
        `${reason} Put kind ${kindRelease} on PATH, name a mirror with KIND_MIRROR=, or use CLUSTER=embedded.`,
      )
    const release = installed.release ?? 'of an unknown release'
    progress.note(`${reason} Continuing with kind ${release} from PATH; kind.yaml is written for ${kindRelease}.`)
    return installed.path
  }
}
