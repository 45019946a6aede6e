import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { which } from 'zx/core'
import { unpackPackages } from '../embedded/index.ts'
import { fetchVerified } from '../host/download.ts'
import { cacheFolder } from '../host/layout.ts'
import type { Progress } from '../host/progress.ts'

/** The release that is fetched if the system has no kubectl, with the published checksums. */
const release = 'v1.34.4'
const checksums: Record<string, string> = {
  'linux-x64': 'd50c359d95e0841eaad08ddc27c7be37cba8fdccfba5c8e2ded65e121ff112db',
  'linux-arm64': '5b982c0644ab1e27780246b9085a5886651b4a7ed86243acbb2bacc1bea01dda',
}

export interface Kubectl {
  path: string
  /** Its folder, to be put on PATH. */
  folder: string
}

const at = (path: string): Kubectl => ({ path, folder: dirname(path) })

/** The path of the official program in the cache, one static file. Throws if it can't be fetched. */
export async function officialKubectl(progress: Progress): Promise<string> {
  const kind = `${platform()}-${arch()}`
  const sum = checksums[kind]
  if (!sum) throw new Error(`no kubectl is known for "${kind}"`)
  const official = join(cacheFolder, 'bin', 'kubectl')
  const mirror = process.env.KUBECTL_MIRROR || 'https://dl.k8s.io/release'
  const url = `${mirror}/${release}/bin/linux/${arch() === 'x64' ? 'amd64' : 'arm64'}/kubectl`
  await fetchVerified(url, sum, official, { title: `kubectl ${release}`, progress })
  return official
}

/**
 * kubectl: the one on PATH, else the official one in the cache (fetched, verified by checksum), else Debian's.
 * `KUBECTL_MIRROR` replaces the address of the official one. Throws with the next command when none can be fetched.
 */
export async function kubectlPath(progress: Progress): Promise<Kubectl> {
  const installed = await which('kubectl', { nothrow: true })
  if (installed) return at(installed)
  try {
    return at(await officialKubectl(progress))
  } catch (error) {
    progress.note(error instanceof Error ? error.message : String(error))
  }
  try {
    const tree = await unpackPackages(
      { cache: cacheFolder, name: 'kubectl', packages: ['kubernetes-client'] },
      progress,
    )
    return at(join(tree, 'usr', 'bin', 'kubectl'))
  } catch {
    throw new Error(
      'kubectl is not installed and could not be fetched: install it, or put it on PATH, and run the command again.',
    )
  }
}
