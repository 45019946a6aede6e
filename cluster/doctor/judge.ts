import { remainingAccess } from '../../embedded/index.ts'
import { kindRelease } from '../programs.ts'
import type { EmbeddedFacts, Facts, HostFacts, KindFacts } from './facts.ts'
import { kernelResults } from './judge-kernel.ts'
import { kernelLacks, needInWords } from './kernel-probe.ts'
import { type DoctorResult, fault, fine, note, warning } from './result.ts'

const gigabyte = 1024 ** 3
const inGigabytes = (bytes: number) => `${(bytes / gigabyte).toFixed(1)} GB`

/**
 * Free memory and disk that a cluster needs: measured for the embedded one; for kind, three idle
 * nodes use 1 GB and labs another 1 GB.
 */
const needed = {
  embedded: { memory: 1.5 * gigabyte, disk: 0.5 * gigabyte },
  kind: { memory: 3 * gigabyte, disk: 6 * gigabyte },
}

/** Interprets the facts: results with their fixes. Pure: reads nothing itself. */
export const diagnose = (
  facts: Facts,
): Record<'machine' | 'embedded' | 'kind', DoctorResult[]> => ({
  machine: machineResults(facts.host),
  embedded: embeddedResults(facts.embedded, facts.host),
  kind: kindResults(facts.kind, facts.host),
})

const machineResults = ({ system, wsl, nodeVersion, kubectl }: HostFacts): DoctorResult[] => [
  fine('system', wsl ? `${system}, in WSL` : system),
  fine('Node.js', nodeVersion),
  kubectl
    ? fine('kubectl', kubectl)
    : note('kubectl', 'not installed; it will be fetched once and its checksum verified'),
]

function embeddedResults(facts: EmbeddedFacts, host: HostFacts): DoctorResult[] {
  const { trouble, uml, cached, kernel } = facts
  if (trouble !== undefined) return [fault('packages', trouble)]
  const detail = kernel
    ? `${kernel.release}, running: ${kernel.ipvs ? `IPVS with ${kernel.schedulers.length} schedulers` : 'without IPVS'}`
    : `User-Mode Linux, ${cached ? 'its packages are in the cache' : 'will be fetched once (50 MB of packages)'}`
  return [
    uml === undefined ? fine('KERNEL=uml', detail) : note('KERNEL=uml', uml),
    ...hostKernelResult(facts),
    ...confinementResult(facts),
    ...memoryFolderResult(facts),
    room('memory', host.freeMemory, needed.embedded.memory, 'close other programs'),
    room('disk', host.freeDisk, needed.embedded.disk, 'free space on the disk of this checkout'),
  ]
}

/**
 * This machine's own kernel is optional where User-Mode Linux runs: a missing feature is not a
 * fault.
 */
function hostKernelResult({ hostKernel, uml }: EmbeddedFacts): DoctorResult[] {
  if (!hostKernel) return []
  const what = 'KERNEL=host'
  const { trouble, kernel, lacks, ipvsTrouble } = hostKernel
  if (trouble) return [(uml === undefined ? note : fault)(what, trouble.detail, trouble.fix)]
  if (!kernel) {
    const without = (lacks ?? []).map(needInWords)
    const known = without.length > 0 ? `, but it has no ${without.join(' and no ')}` : ''
    return [note(what, `namespaces work${known}; its features are known after \`make up\``)]
  }
  const missing = kernelLacks(kernel, ['ipvs', 'ipset', 'recent', 'nft'])
  const name = `this machine's own, ${kernel.release}`
  if (missing.length === 0) return [fine(what, `${name}: supports everything that labs need`)]
  const why = ipvsTrouble ? `: ${ipvsTrouble.detail}` : ''
  return [fine(what, `${name}, without ${missing.join(' and ')}${why}`, ipvsTrouble?.fix)]
}

/** Only User-Mode Linux has more access to this machine than its programs need. */
function confinementResult({ confinement, uml }: EmbeddedFacts): DoctorResult[] {
  if (!confinement || uml !== undefined) return []
  const what = 'confinement'
  const weakness = remainingAccess(confinement)
  if (!weakness)
    return [
      fine(
        what,
        'Landlock and seccomp: the guest can change no file of this machine and read only programs',
      ),
    ]
  return [(confinement.files === 'mounts' ? note : warning)(what, weakness.open, weakness.fix)]
}

/** Where User-Mode Linux keeps the memory of its guest. */
function memoryFolderResult({ memoryPlaces = [] }: EmbeddedFacts): DoctorResult[] {
  const what = 'memory folder'
  const used = memoryPlaces.find(({ trouble }) => trouble === undefined)
  const reasons = memoryPlaces.flatMap(({ trouble }) => trouble ?? []).join(' and ')
  if (used) return [fine(what, `"${used.folder}"${reasons && `, because ${reasons}`}`)]
  if (memoryPlaces.length === 0) return []
  const fix = 'TMPDIR=, with a folder that has room for it and where programs can be run'
  return [fault(what, `the guest's memory has no place: ${reasons}`, fix)]
}

function room(what: string, free: number, enough: number, fix: string): DoctorResult {
  const detail = `${inGigabytes(free)} free`
  return free >= enough
    ? fine(what, detail)
    : warning(what, detail, `${fix}: ${inGigabytes(enough)} are needed`)
}

function kindResults(kind: KindFacts, host: HostFacts): DoctorResult[] {
  const { engine, image } = kind
  if (!engine) {
    const { detail, fix } = missingEngine(host)
    return [fault('engine', detail, fix)]
  }
  const { name, version, operatingSystem, memory, cpus } = engine
  const inTotal = `${inGigabytes(memory)} in total, ${cpus} processors`
  return [
    fine(
      'engine',
      `${name} ${version} on ${operatingSystem || 'an unknown system'}, kernel ${engine.kernel}`,
    ),
    binaryResult(kind),
    ...(image ? [imageResult(image)] : []),
    ...cgroupResults(kind),
    ...(memory > 0
      ? [
          {
            ...room('memory', memory, needed.kind.memory, "give the engine's machine more memory"),
            detail: inTotal,
          },
        ]
      : []),
    ...engineKernelResults(kind),
  ]
}

function engineKernelResults({ engine, image, kernel, kernelTrouble }: KindFacts): DoctorResult[] {
  if (!engine) return []
  if (kernel)
    return [
      room(
        'disk',
        kernel.freeDisk,
        needed.kind.disk,
        `\`${engine.name} system prune\`, or free disk space`,
      ),
      ...kernelResults(kernel, engine),
    ]
  if (kernelTrouble === undefined) {
    const fix = `${engine.name} pull ${image?.reference ?? 'IMAGE'}, then make doctor again`
    return [note('kernel', 'its features are not known until a node image is available', fix)]
  }
  const must = `\`${engine.name} run --rm --privileged IMAGE true\` must work`
  const fix = engine.rootless ? 'use an engine that runs as root' : must
  return [fault('containers', `a privileged container does not run: ${kernelTrouble}`, fix)]
}

/** No engine: the message, and the command that starts one on this system. */
export function missingEngine({ platform, wsl }: HostFacts): { detail: string; fix: string } {
  const detail = 'no Docker or Podman engine responds'
  if (platform === 'darwin') return { detail, fix: 'start Docker Desktop, or: colima start' }
  if (wsl)
    return {
      detail,
      fix: 'start Docker Desktop and enable its WSL integration, or: sudo service docker start',
    }
  return {
    detail,
    fix: 'sudo systemctl start docker (and: sudo usermod -aG docker $USER), or install Docker or Podman',
  }
}

function binaryResult({ binary, cached, binaryTrouble }: KindFacts): DoctorResult {
  if (binaryTrouble !== undefined)
    return fault(
      'kind',
      `kind ${kindRelease} is not installed and could not be fetched`,
      `put kind ${kindRelease} on PATH, or name a mirror with KIND_MIRROR=`,
    )
  if (binary?.release === kindRelease) return fine('kind', `${kindRelease}, ${binary.path}`)
  const other = binary ? `${binary.release ?? 'of an unknown release'} on PATH; ` : ''
  return cached
    ? fine('kind', `${other}${kindRelease} is in the cache`)
    : note('kind', `${other}${kindRelease} will be fetched once and its checksum verified`)
}

function imageResult({
  reference,
  isPresent,
  registry,
}: NonNullable<KindFacts['image']>): DoctorResult {
  const what = 'node image'
  const name = reference.replace(/@sha256:.*/, '')
  if (isPresent) return fine(what, `${name} is available`)
  if (registry) return note(what, `${name} will be fetched (about 400 MB)`)
  return fault(
    what,
    `${name} is not available, and its registry does not respond`,
    "check the engine's network or proxy, or name an available image with IMAGE=",
  )
}

function cgroupResults({ engine, image }: KindFacts): DoctorResult[] {
  if (!engine?.cgroupVersion) return []
  const what = 'cgroups'
  if (engine.cgroupVersion === '2') return [fine(what, 'version 2')]
  const minor = Number(/v1\.(\d+)/.exec(image?.reference ?? '')?.[1] ?? 0)
  // kubelet 1.35 refuses to start on cgroup v1 (failCgroupV1 is true by default).
  if (minor < 35 && !engine.rootless)
    return [note(what, 'version 1, which node images before v1.35 still run on')]
  return [
    fault(
      what,
      `version 1, which ${engine.rootless ? 'rootless engines' : 'this node image'} can't use`,
      'boot with systemd.unified_cgroup_hierarchy=1, or name an older node image with IMAGE=',
    ),
  ]
}
