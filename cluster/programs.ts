import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { which } from 'zx/core'
import { unpackPackages } from '../embedded/index.ts'
import { $ } from '../host/command.ts'
import { fetchVerified } from '../host/download.ts'
import { cacheFolder } from '../host/layout.ts'
import { reasonOf } from '../host/main.ts'
import type { Progress } from '../host/progress.ts'
import { scaledMs } from '../host/wait.ts'

/**
 * A program that is one static file: the release that is fetched if this system lacks it, with the
 * published checksums.
 */
interface OfficialProgram {
  name: string
  release: string
  /** Its folder of releases; an environment variable of this name replaces it. */
  address: string
  mirror: string
  /** Its path there. */
  file(platform: string): string
  checksums: Record<string, string>
}

/** The release that kind.yaml's node image belongs to. */
export const kindRelease = 'v0.33.0'
const kind: OfficialProgram = {
  name: 'kind',
  release: kindRelease,
  address: 'https://github.com/kubernetes-sigs/kind/releases/download',
  mirror: 'KIND_MIRROR',
  file: (name) => `${kindRelease}/kind-${name}`,
  checksums: {
    'linux-amd64': 'aee6151561422756b764a4ae28e7f44cda5af5a9eead3cc9985112b1de8d8e0d',
    'linux-arm64': '20022bee6cfcd5086cb7234d218e3454e6090022f2a8f55d1fa7fcf42c3867a2',
    'darwin-amd64': '5a99f26f57246dc9319dd294803313197a0f34d33c525b3ea8b655db5916ece0',
    'darwin-arm64': '0c8c7dbe5e23594a198b786c4bc13dacc101fa6196b0cb0b23a1ca44e61f4b4f',
  },
}

const kubectlRelease = 'v1.34.4'
const kubectl: OfficialProgram = {
  name: 'kubectl',
  release: kubectlRelease,
  address: 'https://dl.k8s.io/release',
  mirror: 'KUBECTL_MIRROR',
  file: (name) => `${kubectlRelease}/bin/${name.replace('-', '/')}/kubectl`,
  checksums: {
    'linux-amd64': 'd50c359d95e0841eaad08ddc27c7be37cba8fdccfba5c8e2ded65e121ff112db',
    'linux-arm64': '5b982c0644ab1e27780246b9085a5886651b4a7ed86243acbb2bacc1bea01dda',
  },
}

const platformName = `${platform()}-${arch() === 'x64' ? 'amd64' : arch()}`

/**
 * Fetches a program once, verified by its checksum; `sum` replaces the published one in tests.
 * @throws Error in one sentence
 */
async function fetchProgram(
  program: OfficialProgram,
  path: string,
  progress: Progress,
  sum?: string,
): Promise<string> {
  const { name, release, address, mirror, file, checksums } = program
  const expected = sum ?? checksums[platformName]
  if (!expected) throw new Error(`No ${name} is known for "${platformName}".`)
  const url = `${process.env[mirror] || address}/${file(platformName)}`
  await fetchVerified(url, expected, path, { title: `${name} ${release}`, progress })
  return path
}

/** The kind on PATH and its release; undefined if there is none. */
export async function installedKind(): Promise<
  { path: string; release: string | undefined } | undefined
> {
  const path = await which('kind', { nothrow: true })
  if (!path) return undefined
  const { stdout } = await $({
    quiet: true,
    nothrow: true,
    timeout: scaledMs(10_000),
  })`${path} version`
  return { path, release: kindVersion(stdout) }
}

/** The release number in the output of `kind version`, such as `v0.33.0`. */
export const kindVersion = (text: string): string | undefined =>
  /\bv\d+\.\d+\.\d+\S*/.exec(text)?.[0]

/** Where the pinned kind is cached. */
export const cachedKind = (cache = cacheFolder) => join(cache, 'bin', `kind-${kindRelease}`)

/**
 * kind in the pinned release: the one on PATH if it has that release, else the one in the cache,
 * which is fetched. `KIND_MIRROR` replaces the address. Another release on PATH is used, with a
 * note, only when the fetch fails. `place` is for tests.
 * @throws Error in one sentence when there is none and none can be fetched
 */
export async function kindPath(
  progress: Progress,
  place: { cache: string; sum?: string } = { cache: cacheFolder },
): Promise<string> {
  const installed = await installedKind()
  if (installed?.release === kindRelease) return installed.path
  try {
    return await fetchProgram(kind, cachedKind(place.cache), progress, place.sum)
  } catch (error) {
    const reason = reasonOf(error)
    if (!installed)
      throw new Error(
        `${reason} Put kind ${kindRelease} on PATH, name a mirror with KIND_MIRROR=, or use CLUSTER=embedded.`,
      )
    const release = installed.release ?? 'of an unknown release'
    progress.note(
      `${reason} Continuing with kind ${release} from PATH; kind.yaml is written for ${kindRelease}.`,
    )
    return installed.path
  }
}

/** The path of the official kubectl in the cache. Throws if it can't be fetched. */
export const officialKubectl = (progress: Progress): Promise<string> =>
  fetchProgram(kubectl, join(cacheFolder, 'bin', 'kubectl'), progress)

/**
 * kubectl: the one on PATH, else the official one in the cache, which is fetched, else Debian's.
 * `KUBECTL_MIRROR` replaces the address of the official one. Throws with the next command when none
 * can be fetched.
 */
export async function kubectlPath(progress: Progress): Promise<string> {
  const installed = await which('kubectl', { nothrow: true })
  if (installed) return installed
  try {
    return await officialKubectl(progress)
  } catch (error) {
    progress.note(reasonOf(error))
  }
  try {
    const packages = { cache: cacheFolder, name: 'kubectl', packages: ['kubernetes-client'] }
    return join(await unpackPackages(packages, progress), 'usr', 'bin', 'kubectl')
  } catch {
    throw new Error(
      'kubectl is not installed and could not be fetched: install it, or put it on PATH, and run the command again.',
    )
  }
}
