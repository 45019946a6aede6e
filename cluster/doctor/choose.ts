import {
  type HostKernelTrouble,
  KERNELS,
  type KernelName,
  umlTrouble,
} from '../../embedded/index.ts'
import type { EngineName } from '../kind/engine.ts'
import type { EmbeddedFacts, Facts, LabNeeds } from './facts.ts'
import { diagnose, missingEngine } from './judge.ts'
import {
  hostKernelFacts,
  type KernelFacts,
  type KernelNeed,
  kernelLacks,
  needInWords,
} from './kernel-probe.ts'
import type { DoctorResult } from './result.ts'

/** A kernel of one of the clusters, and what a lab finds there. */
export interface KernelPlace {
  /** As in `make doctor`. */
  name: 'KERNEL=uml' | 'KERNEL=host' | 'kind'
  reason?: string | undefined
  /** No lab can run there: that reason is reported once for all of them. */
  forAll: boolean
  /** What the lab needs of a kernel whose features are not known yet. */
  unknown: string[]
  /** What single steps need and its kernel lacks. */
  stepsLack: string[]
}

/** Where a lab can run, and why not elsewhere, in the order of `make doctor`. Pure. */
export function placesFor(
  { kernel: needs = [], kernelOfSteps = [], measures = false }: LabNeeds,
  facts: Facts,
): KernelPlace[] {
  const { uml, hostKernel, trouble } = facts.embedded
  const { embedded, kind } = diagnose(facts)
  const unmeasurable = measures && (trouble ?? uml) ? UNMEASURABLE : undefined
  const faultOf = (results: DoctorResult[]) =>
    results.find(({ severity }) => severity === 'fault')?.detail
  const place = (
    name: KernelPlace['name'],
    kernel: KernelFacts | 'embedded' | undefined,
    whyNone?: string,
    knownLacks: readonly KernelNeed[] = [],
  ): KernelPlace => {
    const without = needs.filter((need) => knownLacks.includes(need))
    const lacking = kernel ? kernelLacks(kernel, needs) : without.map(needInWords)
    const whyNot = lacking.length > 0 ? `its kernel has no ${lacking.join(' and no ')}` : undefined
    return {
      name,
      reason: unmeasurable ?? whyNone ?? whyNot,
      forAll: unmeasurable === undefined && whyNone !== undefined,
      unknown: kernel ? [] : needs.map(needInWords),
      stepsLack: kernel ? kernelLacks(kernel, kernelOfSteps) : [],
    }
  }
  const noCluster = faultOf(embedded)
  return [
    place('KERNEL=uml', 'embedded', noCluster ?? uml),
    place(
      'KERNEL=host',
      hostKernel?.kernel,
      noCluster ?? (hostKernel ? hostKernel.trouble?.detail : 'not tried'),
      hostKernel?.lacks,
    ),
    place('kind', facts.kind.kernel, faultOf(kind)),
  ]
}

/** Of a lab that measures on this machine, whatever its cluster is. */
export const UNMEASURABLE = "it measures in User-Mode Linux, which can't run here"

/**
 * The existing clusters of one name, if no embedded cluster of that name runs (a running one is
 * always chosen).
 */
export interface ExistingClusters {
  name: string
  engine: EngineName | undefined
  /** The engine has node containers of this name. */
  kindExists: boolean
  /** A kind cluster of this name was created from this checkout and not removed by it. */
  kindWasMade: boolean
}

/** The cluster to use, with a note if the choice may be unexpected; or why there is none. */
export type ClusterChoice = { driver: 'embedded' | 'kind'; note?: string } | { refusal: string }

/**
 * Chooses the cluster for CLUSTER=auto: the one that exists, else kind if it is available, else
 * embedded; for a lab, one on which it can run. Uses the same rules as `make doctor`. Pure.
 */
export function chooseCluster(
  existing: ExistingClusters,
  facts: Facts,
  lab?: LabNeeds,
): ClusterChoice {
  const { name, engine, kindExists, kindWasMade } = existing
  if (!engine && kindWasMade) {
    const { detail, fix } = missingEngine(facts.host)
    return {
      refusal: `The kind cluster "${name}" was created here, but ${detail}: ${fix}; or CLUSTER=embedded for another cluster.`,
    }
  }
  if (!lab && kindExists) return { driver: 'kind' }
  const places = placesFor(lab ?? { number: 0 }, facts)
  const onKind = ({ name: place }: KernelPlace) => place === 'kind'
  const drivers = {
    kind: places.filter(onKind),
    embedded: places.filter((place) => !onKind(place)),
  }
  const whyNot = (driver: 'kind' | 'embedded') =>
    [...new Set(drivers[driver].flatMap(({ reason }) => reason ?? []))].join('; ')
  const order = engine ? (['kind', 'embedded'] as const) : (['embedded'] as const)
  const driver = order.find((one) => drivers[one].some(({ reason }) => reason === undefined))
  if (driver === 'kind' || (driver && !engine)) return { driver }
  if (driver) {
    const but = kindExists
      ? `Lab ${lab?.number} can't run on the kind cluster "${name}": ${whyNot('kind')}; it starts on an embedded one`
      : `${engine} answers, but ${whyNot('kind')}: using the embedded cluster`
    return { driver, note: `${but}.` }
  }
  // If an embedded cluster cannot run, its own start reports why.
  if (!lab) return { driver: 'embedded' }
  return {
    refusal: cannotStartLab(lab, order.map((one) => `not on ${one} (${whyNot(one)})`).join(', ')),
  }
}

/** The error message for a lab that cannot be started. */
export const cannotStartLab = ({ number }: Pick<LabNeeds, 'number'>, why: string) =>
  `Lab ${number} can't run here, and nothing was started: ${why}. \`make doctor\` shows how to fix it.`

/** The names of the embedded cluster's kernels in messages. */
export const KERNEL_TITLES: Record<KernelName, string> = {
  uml: 'User-Mode Linux',
  host: "this machine's own kernel",
}

/** The kernel for a new cluster, with a note if it is not the usual one; or why there is none. */
export type KernelChoice = { kernel: KernelName; note?: string } | { refusal: string }

/** @throws Error with the accepted values for a `KERNEL` that is none of them */
export function requireKnownKernel(requested: string | undefined): void {
  if (!requested || requested === 'auto' || KERNELS.some((name) => name === requested)) return
  throw new Error(
    `KERNEL="${requested}" is not known: use "auto", ${KERNELS.map((name) => `"${name}"`).join(' or ')}.`,
  )
}

/**
 * What KERNEL=auto means: User-Mode Linux; this machine's own kernel if only that can do what the
 * given lab needs, or if User-Mode Linux can't run. A cluster keeps its kernel for all labs, and
 * modules, which labs 4 and 8 load and unload, can be changed in the former only. Pure.
 * @throws Error for another value of KERNEL
 */
export function chooseKernel(
  requested: string | undefined,
  { hostKernel, uml }: Pick<EmbeddedFacts, 'hostKernel' | 'uml'>,
  lab?: LabNeeds,
): KernelChoice {
  requireKnownKernel(requested)
  if (requested === 'uml')
    return uml === undefined ? { kernel: 'uml' } : { refusal: `${uml}: leave KERNEL out.` }
  const { trouble, kernel } = hostKernel ?? {}
  if (requested === 'host' || uml !== undefined) {
    if (!trouble) return { kernel: 'host' }
    return { refusal: refuseHostKernel(trouble, requested === 'host', uml) }
  }
  if (!kernel) return { kernel: 'uml' }
  const wanted = needsOf(lab)
  const missing = kernelLacks('embedded', wanted)
  if (missing.length === 0 || kernelLacks(kernel, wanted).length > 0) return { kernel: 'uml' }
  const note = `The cluster gets ${KERNEL_TITLES.host}: lab ${lab?.number} needs ${missing.join(' and ')}, which ${KERNEL_TITLES.uml} lacks.`
  return { kernel: 'host', note }
}

/** Why there is no kernel where only that of this machine could be used, and what to do. */
function refuseHostKernel(
  { detail, fix }: HostKernelTrouble,
  isRequested: boolean,
  uml: string | undefined,
): string {
  const what = isRequested
    ? `KERNEL=host can't be used here, `
    : `${uml}, and KERNEL=host can't be used, `
  const first = fix ? `run \`${fix}\` first, or ` : ''
  const other =
    uml === undefined ? 'leave KERNEL out' : 'start Docker or Podman and run `CLUSTER=kind make up`'
  return `${what}${detail}: ${first}${other}.`
}

/**
 * The kernel for a new embedded cluster, as KERNEL requests it. The machine's own kernel is probed
 * only if the result can change the choice: for a lab with steps that User-Mode Linux does not
 * support. `packages` fetches them, and is called only for that probe.
 */
export async function kernelForNew(
  packages: () => Promise<string>,
  lab: LabNeeds | undefined,
): Promise<KernelChoice> {
  const requested = process.env.KERNEL
  const uml = umlTrouble()
  if (requested === 'host' || uml !== undefined)
    return chooseKernel(requested, { uml, hostKernel: await hostKernelFacts(undefined) }, lab)
  const matters =
    (!requested || requested === 'auto') && kernelLacks('embedded', needsOf(lab)).length > 0
  const hostKernel = matters ? await hostKernelFacts(await packages()) : undefined
  return chooseKernel(requested, hostKernel ? { hostKernel } : {}, lab)
}

const needsOf = (lab?: LabNeeds): readonly KernelNeed[] => [
  ...(lab?.kernel ?? []),
  ...(lab?.kernelOfSteps ?? []),
]
