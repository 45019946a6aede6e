import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { platform, release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type HostKernelTrouble, hostKernelTrouble, startMachine, umlTrouble } from '../../embedded/index.ts'
import { chooseKernel, type KernelChoice, needsOf } from './choose.ts'
import type { EmbeddedFacts, KernelFacts, LabNeeds } from './facts.ts'
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
    const kernel = await machine.run(kernelProbeCommand, {}, { timeoutMs: probeMs }).then(
      ({ stdout }) => readKernelProbe(stdout),
      () => undefined,
    )
    await machine.stop()
    if (!kernel) return { trouble: unfinished }
    return { kernel, ipvsTrouble: ipvsTrouble(kernel, hasIpvsModule()) }
  } catch (error) {
    // The console that the message names is in the folder that is removed below.
    return {
      trouble: { detail: (error instanceof Error ? error.message : String(error)).replace(/ Its console is .*/, '') },
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const unfinished: HostKernelTrouble = {
  detail: `its features could not be determined within ${probeMs / 1000} s`,
  fix: 'LAB_TIMEOUT_SCALE=5 make doctor, where programs are slow to start',
}

/** Whether this machine's kernel has ip_vs: loaded, built in, or as a module that can be loaded. */
function hasIpvsModule(): boolean {
  const lists = ['dep', 'builtin'].map((name) => `/lib/modules/${release()}/modules.${name}`)
  const isListed = (file: string) => existsSync(file) && readFileSync(file, 'utf8').includes('/ip_vs.ko')
  return existsSync('/proc/net/ip_vs') || lists.some(isListed)
}

/** Before it, network namespaces of a user namespace have no settings of ip_vs (ip_vs_control_net_init_sysctl), which kube-proxy needs. */
const IPVS_IN_NAMESPACES = [6, 11] as const

/**
 * Why this machine's own kernel has no IPVS for the cluster, and what changes that; undefined where it has. That the user
 * is root of the machine changes nothing: the guest is never run with root's rights there. Pure.
 */
export function ipvsTrouble(kernel: KernelFacts, hasModule: boolean): HostKernelTrouble | undefined {
  if (kernelLacks(kernel, ['ipvs']).length === 0) return undefined
  const [major = 0, minor = 0] = kernel.release.split('.').map(Number)
  const [since, sinceMinor] = IPVS_IN_NAMESPACES
  if (!hasModule) return { detail: 'it was built without ip_vs' }
  if (major < since || (major === since && minor < sinceMinor))
    return { detail: `up to Linux ${since}.${sinceMinor - 1} ip_vs can't be used in user namespaces` }
  const modules = ['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_sh', 'ip_vs_lc', 'ip_set', 'xt_set', 'dummy']
  return { detail: 'its modules are not loaded', fix: `sudo modprobe -a ${modules.join(' ')}` }
}

/**
 * The kernel for a new embedded cluster, as KERNEL requests it. The machine's own kernel is probed only if the result can
 * change the choice: for a lab with steps that User-Mode Linux does not support. `packages` fetches them, and is called only for that probe.
 */
export async function kernelForNew(packages: () => Promise<string>, lab: LabNeeds | undefined): Promise<KernelChoice> {
  const wish = process.env.KERNEL
  const uml = umlTrouble()
  if (wish === 'host' || uml !== undefined)
    return chooseKernel(wish, { uml, hostKernel: await hostKernelFacts(undefined) }, lab)
  const matters = (!wish || wish === 'auto') && kernelLacks('embedded', needsOf(lab)).length > 0
  const hostKernel = matters ? await hostKernelFacts(await packages()) : undefined
  return chooseKernel(wish, hostKernel ? { hostKernel } : {}, lab)
}
