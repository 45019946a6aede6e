import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { $, which } from 'zx'
import { fetchVerified } from '../download.ts'
import type { Progress } from '../driver.ts'
import { cacheFolder } from '../layout.ts'

/** The release that kind.yaml's node image belongs to, with the sums its publishers give. */
export const kindRelease = 'v0.33.0'
const checksums: Record<string, string> = {
  'linux-amd64': 'aee6151561422756b764a4ae28e7f44cda5af5a9eead3cc9985112b1de8d8e0d',
  'darwin-arm64': '0c8c7dbe5e23594a198b786c4bc13dacc101fa6196b0cb0b23a1ca44e61f4b4f',
}

/** The release number in what `kind version` prints, such as `v0.33.0`. */
export function kindVersion(text: string): string | undefined {
  return /\bv\d+\.\d+\.\d+\S*/.exec(text)?.[0]
}

/**
 * A kind of the pinned release: the one on PATH where it is that, else the one in the cache, fetched with its sum checked.
 * `KIND_MIRROR` replaces the address. Another release on PATH is used, with a word, only when the fetch fails.
 */
export async function kindPath(progress: Progress): Promise<string> {
  const installed = await which('kind', { nothrow: true })
  const found = installed
    ? kindVersion((await $({ quiet: true, nothrow: true })`${installed} version`).stdout)
    : undefined
  if (installed && found === kindRelease) return installed
  const kind = `${platform()}-${arch() === 'x64' ? 'amd64' : arch()}`
  const path = join(cacheFolder, 'bin', `kind-${kindRelease}`)
  progress.start(`Fetching kind ${kindRelease}`)
  try {
    const sum = checksums[kind]
    if (!sum) throw new Error(`No kind is known for "${kind}".`)
    const mirror = process.env.KIND_MIRROR || 'https://github.com/kubernetes-sigs/kind/releases/download'
    await fetchVerified(`${mirror}/${kindRelease}/kind-${kind}`, sum, path)
    progress.end(true)
    return path
  } catch (error) {
    progress.end(false)
    const reason = error instanceof Error ? error.message : String(error)
    if (!installed) throw new Error(`${reason} Install kind ${kindRelease}, or use CLUSTER=embedded.`)
    progress.note(`${reason} Going on with kind ${found} from PATH; kind.yaml is written for ${kindRelease}.`)
    return installed
  }
}
