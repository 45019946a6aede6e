import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { platform, release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostKernelTrouble, startMachine } from '../../embedded/index.ts'
import { chooseKernel, type KernelChoice, needsOf } from './choose-kernel.ts'
import type { EmbeddedFacts, LabNeeds } from './facts.ts'
import { kernelLacks } from './judge.ts'
import { kernelProbeCommand, probeMs, readKernelProbe } from './kernel-probe.ts'

/**
 * The features of this machine's own kernel in namespaces, probed in a temporary guest; `packages` as ensurePackages
 * returns them.
 */
export async function hostKernelFacts(packages: string | undefined): Promise<EmbeddedFacts['hostKernel']> {
  const trouble = platform() === 'linux' ? hostKernelTrouble() : { detail: 'this is not Linux' }
  if (trouble || !packages) return { trouble }
  const directory = mkdtempSync(join(tmpdir(), 'kube-service-labs-probe-'))
  try {
    const machine = await startMachine({ kernel: 'host', packages, directory, name: 'probe' })
    const { stdout } = await machine.run(kernelProbeCommand, {}, { timeoutMs: probeMs })
    await machine.stop()
    return { kernel: readKernelProbe(stdout) }
  } catch (error) {
    return { trouble: { detail: error instanceof Error ? error.message : String(error) } }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/**
 * The kernel for a new embedded cluster, as KERNEL requests it. The machine's own kernel is probed only if the result can
 * change the choice: for a lab with steps that User-Mode Linux does not support, or if it may have IPVS and therefore
 * support all labs.
 */
export async function kernelForNew(packages: string, lab: LabNeeds | undefined): Promise<KernelChoice> {
  const wish = process.env.KERNEL
  if (wish === 'host') return chooseKernel(wish, { hostKernel: await hostKernelFacts(undefined) }, lab)
  const matters = kernelLacks('embedded', needsOf(lab)).length > 0 || mayHaveIpvs()
  const hostKernel = matters && wish !== 'uml' ? await hostKernelFacts(packages) : undefined
  return chooseKernel(wish, hostKernel ? { hostKernel } : {}, lab)
}

function mayHaveIpvs(): boolean {
  const lists = ['dep', 'builtin'].map((name) => `/lib/modules/${release()}/modules.${name}`)
  const isListed = (file: string) => existsSync(file) && readFileSync(file, 'utf8').includes('/ip_vs.ko')
  return existsSync('/proc/net/ip_vs') || lists.some(isListed)
}
