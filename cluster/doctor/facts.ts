import type { Confinement, MemoryPlace } from '../../embedded/index.ts'
import type { EngineFacts } from '../kind/engine.ts'
import type { HostKernelFacts, KernelFacts, KernelNeed } from './kernel-probe.ts'

/**
 * The facts that `make doctor` collects; judge.ts interprets them. A fact that is missing could not
 * be determined.
 */

/** The host that the commands run on. */
export interface HostFacts {
  /** Distribution and processor, for people. */
  system: string
  nodeVersion: string
  platform: string
  /** Windows Subsystem for Linux: the kernel is Microsoft's. */
  wsl: boolean
  freeMemory: number
  freeDisk: number
  kubectl: string | undefined
}

export interface KindFacts {
  engine?: EngineFacts
  /** The node image of a new cluster, and whether it is available. */
  image?: { reference: string; isPresent: boolean; registry: boolean } | undefined
  binary: { path: string; release: string | undefined } | undefined
  cached: boolean
  /** Why kind could not be fetched, if that was tried. */
  binaryTrouble?: string | undefined
  /** Missing when no container could be started on it; `kernelTrouble` gives the reason. */
  kernel?: KernelFacts
  kernelTrouble?: string
}

export interface EmbeddedFacts {
  /** Why it can't run here; undefined if it can. */
  trouble: string | undefined
  /**
   * Why User-Mode Linux can't, so that it runs on this machine's own kernel only; undefined if it
   * can.
   */
  uml?: string | undefined
  cached: boolean
  /**
   * The mechanisms that protect this machine's files from the guest; tested once its packages are
   * in the cache.
   */
  confinement: Confinement | undefined
  /**
   * The folders that were tried for the memory of User-Mode Linux: the last one is used if it has
   * no trouble.
   */
  memoryPlaces?: readonly MemoryPlace[] | undefined
  /** User-Mode Linux, probed only while one runs. */
  kernel: KernelFacts | undefined
  /** This machine's own kernel. */
  hostKernel?: HostKernelFacts
}

/** What decides on which clusters a lab can run. */
export interface LabNeeds {
  number: number
  kernel?: readonly KernelNeed[]
  /** Needed by single steps only, which are not applicable on other kernels. */
  kernelOfSteps?: readonly KernelNeed[]
  /** It measures on this machine, in User-Mode Linux, whatever its cluster is. */
  measures?: boolean
}

export interface Facts {
  host: HostFacts
  kind: KindFacts
  embedded: EmbeddedFacts
}
