import { type Confinement, remainingAccess } from '../../embedded/index.ts'
import type { EmbeddedFacts, Facts, HostFacts, KernelFacts, KernelNeed, KindFacts, LabNeeds } from './facts.ts'
import { type DoctorResult, kernelResults, type Severity } from './judge-kernel.ts'

export type { DoctorResult, Severity }

/** A kernel of one of the clusters, and what a lab finds there. */
export interface Place {
  /** As in `make doctor`. */
  name: 'KERNEL=uml' | 'KERNEL=host' | 'kind'
  cluster: 'embedded' | 'kind'
  /** Why the lab can't run there; undefined where it can. */
  reason?: string | undefined
  /** No lab can run there: that reason is reported once for all of them. */
  forAll: boolean
  /** What single steps need and its kernel lacks. */
  stepsLack: string[]
}

/** The places for a lab, in the order of `make doctor`. */
export interface LabVerdict {
  number: number
  places: Place[]
}

export interface Diagnosis {
  machine: DoctorResult[]
  embedded: DoctorResult[]
  kind: DoctorResult[]
  labs: LabVerdict[]
}

const gigabyte = 1024 ** 3
const inGigabytes = (bytes: number) => `${(bytes / gigabyte).toFixed(1)} GB`

/**
 * Free memory and disk that a cluster needs: measured for the embedded one; for kind, three idle nodes use 1 GB and labs
 * another 1 GB.
 */
const needed = {
  embedded: { memory: 1.5 * gigabyte, disk: 0.5 * gigabyte },
  kind: { memory: 3 * gigabyte, disk: 6 * gigabyte },
}

/** Interprets the facts: results with their fixes, and where each lab can run. Pure: reads nothing itself. */
export function diagnose(facts: Facts): Diagnosis {
  const embedded = embeddedResults(facts.embedded, facts.host)
  const kind = kindResults(facts.kind, facts.host)
  return {
    machine: machineResults(facts.host),
    embedded,
    kind,
    labs: facts.labs.map((lab) => labVerdict(lab, facts, { embedded, kind })),
  }
}

function machineResults(host: HostFacts): DoctorResult[] {
  return [
    { what: 'system', severity: 'fine', detail: host.wsl ? `${host.system}, in WSL` : host.system },
    { what: 'Node.js', severity: 'fine', detail: host.nodeVersion },
    host.kubectl
      ? { what: 'kubectl', severity: 'fine', detail: host.kubectl }
      : {
          what: 'kubectl',
          severity: 'note',
          detail: 'not installed; it will be fetched once and its checksum verified',
        },
  ]
}

function embeddedResults(facts: EmbeddedFacts, host: HostFacts): DoctorResult[] {
  const { trouble, uml, cached, confinement, kernel } = facts
  if (trouble !== undefined) return [{ what: 'packages', severity: 'fault', detail: trouble }]
  const detail = kernel
    ? `${kernel.release}, running: ${kernel.ipvs ? `IPVS with ${kernel.schedulers.length} schedulers` : 'without IPVS'}`
    : cached
      ? 'User-Mode Linux, its packages are in the cache'
      : 'User-Mode Linux, will be fetched once (50 MB of packages)'
  return [
    uml === undefined
      ? { what: 'KERNEL=uml', severity: 'fine', detail }
      : { what: 'KERNEL=uml', severity: 'note', detail: uml },
    ...hostKernelResult(facts),
    ...(confinement && uml === undefined ? [confinementResult(confinement)] : []),
    room('memory', host.freeMemory, needed.embedded.memory, 'close other programs'),
    room('disk', host.freeDisk, needed.embedded.disk, 'free space on the disk of this checkout'),
  ]
}

function confinementResult(confinement: Confinement): DoctorResult {
  const weakness = remainingAccess(confinement)
  const what = 'confinement'
  if (!weakness)
    return {
      what,
      severity: 'fine',
      detail: 'Landlock and seccomp: the guest can change no file of this machine and read only programs',
    }
  const severity = confinement.files === 'mounts' ? 'note' : 'warning'
  return { what, severity, detail: weakness.open, fix: weakness.fix }
}

function room(what: string, free: number, enough: number, fix: string): DoctorResult {
  const detail = `${inGigabytes(free)} free`
  if (free >= enough) return { what, severity: 'fine', detail }
  return { what, severity: 'warning', detail, fix: `${fix}: ${inGigabytes(enough)} are needed` }
}

function kindResults(kind: KindFacts, host: HostFacts): DoctorResult[] {
  const { engine, image, kernel, kernelTrouble } = kind
  if (!engine) return [{ what: 'engine', severity: 'fault', ...missingEngine(host) }]
  const results: DoctorResult[] = [
    {
      what: 'engine',
      severity: 'fine',
      detail: `${engine.name} ${engine.version} on ${engine.operatingSystem || 'an unknown system'}, kernel ${engine.kernel}`,
    },
    binaryResult(kind),
    ...(image ? [imageResult(image)] : []),
    ...cgroupResults(kind),
  ]
  if (engine.memory > 0)
    results.push({
      ...room('memory', engine.memory, needed.kind.memory, "give the engine's machine more memory"),
      detail: `${inGigabytes(engine.memory)} in total, ${engine.cpus} processors`,
    })
  if (kernel) {
    results.push(room('disk', kernel.freeDisk, needed.kind.disk, `\`${engine.name} system prune\`, or free disk space`))
    results.push(...kernelResults(kernel, engine))
  } else if (kernelTrouble !== undefined)
    results.push({
      what: 'containers',
      severity: 'fault',
      detail: `a privileged container does not run: ${kernelTrouble}`,
      fix: engine.rootless
        ? 'use an engine that runs as root'
        : `\`${engine.name} run --rm --privileged IMAGE true\` must work`,
    })
  else
    results.push({
      what: 'kernel',
      severity: 'note',
      detail: 'its features are not known until a node image is available',
      fix: `${engine.name} pull ${image?.reference ?? 'IMAGE'}, then make doctor again`,
    })
  return results
}

/** This machine's own kernel is optional where User-Mode Linux runs: a missing feature is not a fault. */
function hostKernelResult({ hostKernel, uml }: EmbeddedFacts): DoctorResult[] {
  if (!hostKernel) return []
  const what = 'KERNEL=host'
  const { trouble, kernel, ipvsTrouble } = hostKernel
  if (trouble) return [{ what, severity: uml === undefined ? 'note' : 'fault', ...trouble }]
  if (!kernel) return [{ what, severity: 'note', detail: 'namespaces work; its features are known after `make up`' }]
  const missing = kernelLacks(kernel, ['ipvs', 'ipset', 'recent', 'nft'])
  const name = `this machine's own, ${kernel.release}`
  if (missing.length === 0) return [{ what, severity: 'fine', detail: `${name}: supports everything that labs need` }]
  const why = ipvsTrouble ? `: ${ipvsTrouble.detail}` : ''
  return [{ what, severity: 'fine', ...ipvsTrouble, detail: `${name}, without ${missing.join(' and ')}${why}` }]
}

/** No engine: the message, and the command that starts one on this system. */
export function missingEngine({ platform, wsl }: HostFacts): { detail: string; fix: string } {
  const detail = 'no Docker or Podman engine responds'
  if (platform === 'darwin') return { detail, fix: 'start Docker Desktop, or: colima start' }
  if (wsl) return { detail, fix: 'start Docker Desktop and enable its WSL integration, or: sudo service docker start' }
  return {
    detail,
    fix: 'sudo systemctl start docker (and: sudo usermod -aG docker $USER), or install Docker or Podman',
  }
}

function binaryResult({ binary, pinnedRelease, cached, binaryTrouble }: KindFacts): DoctorResult {
  if (binaryTrouble !== undefined)
    return {
      what: 'kind',
      severity: 'fault',
      detail: `kind ${pinnedRelease} is not installed and could not be fetched`,
      fix: `put kind ${pinnedRelease} on PATH, or name a mirror with KIND_MIRROR=`,
    }
  if (binary?.release === pinnedRelease)
    return { what: 'kind', severity: 'fine', detail: `${pinnedRelease}, ${binary.path}` }
  const source = cached ? 'is in the cache' : 'will be fetched once and its checksum verified'
  const other = binary ? `${binary.release ?? 'of an unknown release'} on PATH; ` : ''
  return { what: 'kind', severity: cached ? 'fine' : 'note', detail: `${other}${pinnedRelease} ${source}` }
}

function imageResult({
  reference,
  held,
  registry,
}: {
  reference: string
  held: boolean
  registry: boolean
}): DoctorResult {
  const name = reference.replace(/@sha256:.*/, '')
  if (held) return { what: 'node image', severity: 'fine', detail: `${name} is available` }
  if (registry) return { what: 'node image', severity: 'note', detail: `${name} will be fetched (about 400 MB)` }
  return {
    what: 'node image',
    severity: 'fault',
    detail: `${name} is not available, and its registry does not respond`,
    fix: "check the engine's network or proxy, or name an available image with IMAGE=",
  }
}

function cgroupResults({ engine, image }: KindFacts): DoctorResult[] {
  if (!engine || engine.cgroupVersion === '2' || engine.cgroupVersion === '')
    return engine?.cgroupVersion === '2' ? [{ what: 'cgroups', severity: 'fine', detail: 'version 2' }] : []
  const minor = Number(/v1\.(\d+)/.exec(image?.reference ?? '')?.[1] ?? 0)
  // kubelet 1.35 refuses to start on cgroup v1 (failCgroupV1 is true by default).
  if (minor < 35 && !engine.rootless)
    return [{ what: 'cgroups', severity: 'note', detail: 'version 1, which node images before v1.35 still run on' }]
  return [
    {
      what: 'cgroups',
      severity: 'fault',
      detail: `version 1, which ${engine.rootless ? 'rootless engines' : 'this node image'} can't use`,
      fix: 'boot with systemd.unified_cgroup_hierarchy=1, or name an older node image with IMAGE=',
    },
  ]
}

/** IPVS without dummy devices counts as missing: kube-proxy puts the ClusterIPs on one. */
const lackOf: Record<KernelNeed, { missing: (kernel: KernelFacts) => boolean; words: string }> = {
  ipvs: { missing: ({ ipvs, dummy }) => !ipvs || !dummy, words: 'IPVS' },
  ipset: { missing: ({ ipset }) => !ipset, words: 'ipset' },
  recent: { missing: ({ extensions }) => !extensions.includes('recent'), words: 'xt_recent' },
  nft: { missing: ({ natNft }) => !natNft, words: 'NAT in nf_tables' },
}

/** The embedded cluster's kernel is known; it lacks nft_chain_nat (Debian's user-mode-linux). */
const embeddedLacks: readonly KernelNeed[] = ['nft']

function labVerdict(
  { number, kernel: needs, kernelOfSteps = [] }: LabNeeds,
  facts: Facts,
  { embedded, kind }: { embedded: DoctorResult[]; kind: DoctorResult[] },
): LabVerdict {
  const { uml, hostKernel } = facts.embedded
  const place = (name: Place['name'], kernel: KernelFacts | 'embedded' | undefined, whyNone?: string): Place => {
    const lacking = kernel ? kernelLacks(kernel, needs) : []
    const reason = whyNone ?? (lacking.length > 0 ? `its kernel has no ${lacking.join(' and no ')}` : undefined)
    const stepsLack = kernel ? kernelLacks(kernel, kernelOfSteps) : []
    return { name, cluster: name === 'kind' ? 'kind' : 'embedded', reason, forAll: whyNone !== undefined, stepsLack }
  }
  const faultOf = (results: DoctorResult[]) => results.find(({ severity }) => severity === 'fault')?.detail
  const noCluster = faultOf(embedded)
  return {
    number,
    places: [
      place('KERNEL=uml', 'embedded', noCluster ?? uml),
      place('KERNEL=host', hostKernel?.kernel, noCluster ?? hostKernel?.trouble?.detail ?? whyUnknown(facts.embedded)),
      place('kind', facts.kind.kernel, faultOf(kind)),
    ],
  }
}

/** Until the packages are there, the host's kernel is not tried, and where User-Mode Linux can't run it has no alternative. */
const whyUnknown = ({ uml, hostKernel }: EmbeddedFacts) =>
  hostKernel?.kernel || uml ? undefined : 'its features are not known yet'

/**
 * The features that a lab needs and a kernel lacks, in words; empty if it lacks none. User-Mode Linux ('embedded') is known
 * without a probe.
 */
export function kernelLacks(kernel: KernelFacts | 'embedded', needs: readonly KernelNeed[]): string[] {
  const missing = needs.filter((need) =>
    kernel === 'embedded' ? embeddedLacks.includes(need) : lackOf[need].missing(kernel),
  )
  return missing.map((need) => lackOf[need].words)
}
