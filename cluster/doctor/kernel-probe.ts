import { existsSync, readFileSync, rmSync } from 'node:fs'
import { platform, release } from 'node:os'
import { type HostKernelTrouble, hostKernelTrouble, startMachine } from '../../embedded/index.ts'
import { reasonOf } from '../../host/main.ts'
import { ownTemporaryFolder } from '../../host/own-temporary-folder.ts'
import { programText } from '../../host/program-text.ts'
import { scaledMs } from '../../host/wait.ts'
import { HAS_MODULE } from '../kube-proxy/module-check.ts'

/** IPVS schedulers of the kernel (net/netfilter/ipvs), as kube-proxy's configuration names them. */
export const schedulers: readonly string[] = [
  'rr',
  'wrr',
  'lc',
  'wlc',
  'sh',
  'dh',
  'sed',
  'nq',
  'mh',
  'lblc',
  'lblcr',
  'fo',
  'ovf',
]

/**
 * Probes a kernel by use: loads modules as kube-proxy or the kernel itself would, then creates a
 * virtual server for each scheduler and a rule for each extension in a network namespace that ends
 * with the script. Run as root in a privileged container or on a node. If a tool is missing,
 * symbols and module lists are read instead.
 */
const kernelProbe = HAS_MODULE + programText('cluster/doctor/kernel-probe.sh')

/**
 * Loading the modules and about sixty probes take one second; the limit allows for a slow virtual
 * machine.
 */
export const probeMs = scaledMs(60_000)

/** The command that runs the probe; the script re-executes itself in a new network namespace. */
export const kernelProbeCommand: readonly string[] = [
  'sh',
  '-c',
  kernelProbe,
  kernelProbe,
  ...schedulers,
]

/**
 * The features that a kernel supports, from the probe's output; undefined if that is incomplete.
 */
export function readKernelProbe(output: string) {
  const values = (key: string) =>
    [...output.matchAll(new RegExp(`^${key}=(.+)$`, 'gm'))].map((match) => match[1] ?? '')
  const number = (key: string) => Number(values(key)[0] ?? 0)
  if (values('end').length === 0) return undefined
  return {
    release: values('release')[0] ?? 'unknown',
    ipvs: values('ipvs').length > 0 && values('scheduler').length > 0,
    schedulers: values('scheduler'),
    ipset: values('ipset').length > 0,
    dummy: values('dummy').length > 0,
    /** Matches and targets of kube-proxy's rules, by their iptables names. */
    extensions: values('extension'),
    natLegacy: values('nat').includes('legacy'),
    natNft: values('nat').includes('nft'),
    nodeBackend: values('backend')[0],
    inotifyInstances: number('inotify-instances'),
    inotifyWatches: number('inotify-watches'),
    /** Bytes that containers can still write. */
    freeDisk: number('disk') * 1024,
  }
}

export type KernelFacts = NonNullable<ReturnType<typeof readKernelProbe>>

/** IPVS without dummy devices counts as missing: kube-proxy puts the ClusterIPs on one. */
const features = {
  ipvs: {
    missing: ({ ipvs, dummy }: KernelFacts) => !ipvs || !dummy,
    description: 'IPVS',
    modules: ['ip_vs', 'ip_vs_rr', 'dummy'],
  },
  ipset: {
    missing: ({ ipset }: KernelFacts) => !ipset,
    description: 'ipset',
    modules: ['ip_set', 'xt_set'],
  },
  recent: {
    missing: ({ extensions }: KernelFacts) => !extensions.includes('recent'),
    description: 'xt_recent',
    modules: ['xt_recent'],
  },
  nft: {
    missing: ({ natNft }: KernelFacts) => !natNft,
    description: 'NAT in nf_tables',
    modules: ['nft_chain_nat'],
  },
}

/** A kernel feature that a lab needs besides iptables. */
export type KernelNeed = keyof typeof features

/** The modules that contain a feature, each of which may be compiled in. */
export const modulesOf = (need: KernelNeed): readonly string[] => features[need].modules

export const needInWords = (need: KernelNeed): string => features[need].description

/** The embedded cluster's kernel is known; it lacks nft_chain_nat (Debian's user-mode-linux). */
const embeddedLacks: readonly KernelNeed[] = ['nft']

/**
 * The features that a lab needs and a kernel lacks, in words; empty if it lacks none. User-Mode
 * Linux ('embedded') is known without a probe.
 */
export function kernelLacks(
  kernel: KernelFacts | 'embedded',
  needs: readonly KernelNeed[],
): string[] {
  const isMissing = (need: KernelNeed) =>
    kernel === 'embedded' ? embeddedLacks.includes(need) : features[need].missing(kernel)
  return needs.filter(isMissing).map(needInWords)
}

export interface HostKernelFacts {
  /** Why it can't be used. */
  trouble?: HostKernelTrouble | undefined
  /** Absent until the packages are in the cache. */
  kernel?: KernelFacts | undefined
  /** Until then: what it lacks in any case, as the files of this machine show. */
  lacks?: readonly KernelNeed[]
  /** Why it has no IPVS in namespaces. */
  ipvsTrouble?: HostKernelTrouble | undefined
}

/**
 * The features of this machine's own kernel in namespaces, probed in a temporary guest; `packages`
 * as ensurePackages returns them.
 */
export async function hostKernelFacts(packages: string | undefined): Promise<HostKernelFacts> {
  const trouble = platform() === 'linux' ? hostKernelTrouble() : { detail: 'this is not Linux' }
  if (trouble) return { trouble }
  if (!packages) return { lacks: hasIpvsModule() ? [] : ['ipvs'] }
  const directory = ownTemporaryFolder('kube-service-labs-probe')
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
    return { trouble: { detail: reasonOf(error).replace(/ Its console is .*/, '') } }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const unfinished: HostKernelTrouble = {
  detail: `its features could not be determined within ${probeMs / 1000} s`,
  fix: 'LAB_TIMEOUT_SCALE=5 make doctor, where programs are slow to start',
}

function hasIpvsModule(): boolean {
  const lists = ['dep', 'builtin'].map((name) => `/lib/modules/${release()}/modules.${name}`)
  const isListed = (file: string) =>
    existsSync(file) && readFileSync(file, 'utf8').includes('/ip_vs.ko')
  return existsSync('/proc/net/ip_vs') || lists.some(isListed)
}

/**
 * Before it, network namespaces of a user namespace have no settings of ip_vs
 * (ip_vs_control_net_init_sysctl), which kube-proxy needs.
 */
const IPVS_IN_NAMESPACES = [6, 11] as const

/**
 * Why this machine's own kernel has no IPVS for the cluster, and what changes that; undefined where
 * it has. That the user is root of the machine changes nothing: the guest is never run with root's
 * rights there. Pure.
 */
export function ipvsTrouble(
  kernel: KernelFacts,
  hasModule: boolean,
): HostKernelTrouble | undefined {
  if (kernelLacks(kernel, ['ipvs']).length === 0) return undefined
  const [major = 0, minor = 0] = kernel.release.split('.').map(Number)
  const [since, sinceMinor] = IPVS_IN_NAMESPACES
  if (!hasModule) return { detail: 'it was built without ip_vs' }
  if (major < since || (major === since && minor < sinceMinor))
    return {
      detail: `up to Linux ${since}.${sinceMinor - 1} ip_vs can't be used in user namespaces`,
    }
  const modules = [
    'ip_vs',
    'ip_vs_rr',
    'ip_vs_wrr',
    'ip_vs_sh',
    'ip_vs_lc',
    'ip_set',
    'xt_set',
    'dummy',
  ]
  return { detail: 'its modules are not loaded', fix: `sudo modprobe -a ${modules.join(' ')}` }
}
