import { KERNELS, type KernelName } from '../../embedded/index.ts'
import type { EmbeddedFacts, KernelFacts, KernelNeed, LabNeeds } from './facts.ts'
import { kernelLacks } from './judge.ts'

/** The names of the embedded cluster's kernels in messages. */
export const KERNEL_TITLES: Record<KernelName, string> = { uml: 'User-Mode Linux', host: "this machine's own kernel" }

/** The kernel features that the labs need. */
const everything: readonly KernelNeed[] = ['ipvs', 'ipset', 'recent', 'nft']

/** The kernel for a new cluster, with a note if it is not the usual one; or why there is none. */
export type KernelChoice = { kernel: KernelName; note?: string } | { refusal: string }

/**
 * Chooses the kernel for KERNEL=auto: this machine's own kernel (the faster one) if it supports what all labs need, or if
 * only it supports what the given lab needs; else User-Mode Linux. Pure.
 * @throws Error for another value of KERNEL
 */
export function chooseKernel(
  wish: string | undefined,
  { hostKernel }: Pick<EmbeddedFacts, 'hostKernel'>,
  lab?: LabNeeds,
): KernelChoice {
  if (wish === 'uml') return { kernel: 'uml' }
  const trouble = hostKernel?.trouble
  if (wish === 'host') {
    if (!trouble) return { kernel: 'host' }
    const fix = trouble.fix ? `: run \`${trouble.fix}\` first, or leave KERNEL out` : ': leave KERNEL out'
    return { refusal: `KERNEL=host can't be used here, ${trouble.detail}${fix}.` }
  }
  if (wish && wish !== 'auto')
    throw new Error(`KERNEL="${wish}" is not known: use "auto", ${KERNELS.map((name) => `"${name}"`).join(' or ')}.`)
  const host = trouble ? undefined : hostKernel?.kernel
  if (!host) return { kernel: 'uml' }
  if (lacks(host, everything).length === 0) return { kernel: 'host' }
  const wanted = needsOf(lab)
  const missing = lacks('embedded', wanted)
  if (missing.length === 0 || lacks(host, lab?.kernel ?? []).length > 0 || lacks(host, wanted).length > 0)
    return { kernel: 'uml' }
  const note = `The cluster gets ${KERNEL_TITLES.host}: lab ${lab?.number} needs ${missing.join(' and ')}, which ${KERNEL_TITLES.uml} lacks.`
  return { kernel: 'host', note }
}

/** Everything that a lab and its steps need. */
export const needsOf = (lab?: LabNeeds): readonly KernelNeed[] => [
  ...(lab?.kernel ?? []),
  ...(lab?.kernelOfSteps ?? []),
]

/**
 * The features that the kernel lacks, in words. IPVS without dummy devices counts as missing: kube-proxy puts the ClusterIPs
 * on one.
 */
const lacks = (kernel: KernelFacts | 'embedded', needs: readonly KernelNeed[]) =>
  kernelLacks(kernel === 'embedded' || kernel.dummy ? kernel : { ...kernel, ipvs: false }, needs)
