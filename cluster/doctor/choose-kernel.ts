import { KERNELS, type KernelName } from '../../embedded/index.ts'
import type { EmbeddedFacts, KernelNeed, LabNeeds } from './facts.ts'
import { kernelLacks } from './judge.ts'

/** The names of the embedded cluster's kernels in messages. */
export const KERNEL_TITLES: Record<KernelName, string> = { uml: 'User-Mode Linux', host: "this machine's own kernel" }

/** The kernel for a new cluster, with a note if it is not the usual one; or why there is none. */
export type KernelChoice = { kernel: KernelName; note?: string } | { refusal: string }

/**
 * What KERNEL=auto means: User-Mode Linux; this machine's own kernel if only that can do what the given lab needs, or if User-Mode Linux
 * can't run. A cluster keeps its kernel for all labs, and modules, which labs 4 and 8 load and unload, can be changed in the former only. Pure.
 * @throws Error for another value of KERNEL
 */
export function chooseKernel(
  wish: string | undefined,
  { hostKernel, uml }: Pick<EmbeddedFacts, 'hostKernel' | 'uml'>,
  lab?: LabNeeds,
): KernelChoice {
  if (wish && wish !== 'auto' && !KERNELS.some((name) => name === wish))
    throw new Error(`KERNEL="${wish}" is not known: use "auto", ${KERNELS.map((name) => `"${name}"`).join(' or ')}.`)
  if (wish === 'uml') return uml === undefined ? { kernel: 'uml' } : { refusal: `${uml}: leave KERNEL out.` }
  const trouble = hostKernel?.trouble
  if (trouble && (wish === 'host' || uml !== undefined)) {
    const what = wish === 'host' ? `KERNEL=host can't be used here, ` : `${uml}, and KERNEL=host can't be used, `
    const other = uml === undefined ? ['leave KERNEL out'] : ['start Docker or Podman and run `CLUSTER=kind make up`']
    const first = trouble.fix ? [`run \`${trouble.fix}\` first`] : []
    return { refusal: `${what}${trouble.detail}: ${[...first, ...other].join(', or ')}.` }
  }
  if (wish === 'host' || uml !== undefined) return { kernel: 'host' }
  const host = trouble ? undefined : hostKernel?.kernel
  if (!host) return { kernel: 'uml' }
  const wanted = needsOf(lab)
  const missing = kernelLacks('embedded', wanted)
  if (missing.length === 0 || kernelLacks(host, wanted).length > 0) return { kernel: 'uml' }
  const note = `The cluster gets ${KERNEL_TITLES.host}: lab ${lab?.number} needs ${missing.join(' and ')}, which ${KERNEL_TITLES.uml} lacks.`
  return { kernel: 'host', note }
}

/** Everything that a lab and its steps need. */
export const needsOf = (lab?: LabNeeds): readonly KernelNeed[] => [
  ...(lab?.kernel ?? []),
  ...(lab?.kernelOfSteps ?? []),
]
