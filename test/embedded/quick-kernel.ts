import { afterAll, beforeAll, vi } from 'vitest'
import { hostKernelTrouble, type KernelName } from '../../embedded/index.ts'

/** The kernel on which programs start fastest, for tests of what does not depend on the kernel. */
export const quickKernel: KernelName = hostKernelTrouble() ? 'uml' : 'host'

/**
 * Registers that the clusters of this file's tests, also those of the commands that they start, run
 * on this kernel.
 */
export function runOn(kernel: KernelName): void {
  beforeAll(() => {
    vi.stubEnv('KERNEL', kernel)
  })
  afterAll(() => {
    vi.unstubAllEnvs()
  })
}
