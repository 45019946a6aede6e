import { existsSync, readFileSync, rmSync } from 'node:fs'
import { platform, release } from 'node:os'
import { type HostKernelTrouble, hostKernelTrouble, startMachine } from '../../embedded/index.ts'
import { reasonOf } from '../../host/main.ts'
import { ownTemporaryFolder } from '../../host/own-temporary-folder.ts'
import { timeoutScale } from '../../host/wait.ts'
import { HAS_MODULE } from '../kube-proxy/module-check.ts'

/** IPVS schedulers of the kernel (net/netfilter/ipvs), as kube-proxy's configuration names them. */
export const schedulers: readonly string[] = [
  ...['rr', 'wrr', 'lc', 'wlc', 'sh', 'dh', 'sed', 'nq', 'mh', 'lblc', 'lblcr', 'fo', 'ovf'],
]

const rules: Record<string, string> = {
  comment: '-m comment --comment probe -j RETURN',
  conntrack: '-m conntrack --ctstate NEW -j RETURN',
  addrtype: '-m addrtype --dst-type LOCAL -j RETURN',
  mark: '-m mark --mark 0x4000/0x4000 -j RETURN',
  MARK: '-j MARK --or-mark 0x4000',
  statistic: '-m statistic --mode random --probability 0.5 -j RETURN',
  recent: '-m recent --name probe --rcheck --seconds 10800 --reap -j RETURN',
}

/**
 * Probes a kernel by use: loads modules as kube-proxy or the kernel itself would, then creates a virtual server for each
 * scheduler and a rule for each extension in a network namespace that ends with the script. Run as root in a privileged
 * container or on a node. If a tool is missing, symbols and module lists are read instead.
 */
const kernelProbe = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
[ -n "$PROBE_INSIDE" ] || exec env PROBE_INSIDE=1 unshare -n sh -c "$0"
echo "release=$(uname -r)"
for module in ip_vs ip_set xt_set dummy nf_conntrack xt_recent xt_statistic br_netfilter; do
  modprobe -q "$module"
done >/dev/null 2>&1
${HAS_MODULE}
# In a user namespace it is there from Linux 6.11 on; without it, no packet of IPVS can be masqueraded.
if [ -w /proc/sys/net/ipv4/vs/conntrack ]; then
  echo ipvs=yes
  for one in ${schedulers.join(' ')}; do
    modprobe -q "ip_vs_$one" >/dev/null 2>&1
    if command -v ipvsadm >/dev/null; then ipvsadm -A -t 198.51.100.0:20000 -s "$one" && ipvsadm -D -t 198.51.100.0:20000
    else has_module "ip_vs_$one"; fi >/dev/null 2>&1 && echo "scheduler=$one"
  done
fi
ip link add probe0 type dummy 2>/dev/null && echo dummy=yes
ip link set lo up 2>/dev/null
iptables -t filter -N PROBE >/dev/null 2>&1
try() { name=$1; shift; iptables -t filter -A PROBE "$@" >/dev/null 2>&1 && echo "extension=$name"; }
${Object.entries(rules)
  .map(([name, rule]) => `try ${name} ${rule}`)
  .join('\n')}
iptables -t nat -A POSTROUTING -j MASQUERADE --random-fully >/dev/null 2>&1 && echo extension=MASQUERADE
# If the kernel has the extension, the error is that the set does not exist.
case $(iptables -t filter -A PROBE -m set --match-set probe src -j RETURN 2>&1) in
  *"doesn't exist"*) echo ipset=yes ;;
  *) command -v ipset >/dev/null && ipset list -n >/dev/null 2>&1 && echo ipset=yes ;;
esac
iptables-legacy -t nat -A POSTROUTING -j MASQUERADE >/dev/null 2>&1 && echo nat=legacy
iptables-nft -t nat -A POSTROUTING -j MASQUERADE >/dev/null 2>&1 && echo nat=nft
case $(iptables --version 2>/dev/null) in *nf_tables*) echo backend=nft ;; *legacy*) echo backend=legacy ;; esac
echo "inotify-instances=$(cat /proc/sys/fs/inotify/max_user_instances 2>/dev/null)"
echo "inotify-watches=$(cat /proc/sys/fs/inotify/max_user_watches 2>/dev/null)"
echo "disk=$(df -Pk / | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)"
echo end=yes`

/** Loading the modules and about sixty probes take one second; the limit allows for a slow virtual machine. */
export const probeMs = 60_000 * timeoutScale()

/** The command that runs the probe; the script re-executes itself in a new network namespace. */
export const kernelProbeCommand: readonly string[] = ['sh', '-c', kernelProbe, kernelProbe]

/** The features that a kernel supports, from the probe's output; undefined if that is incomplete. */
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
    words: 'IPVS',
    modules: ['ip_vs', 'ip_vs_rr', 'dummy'],
  },
  ipset: {
    missing: ({ ipset }: KernelFacts) => !ipset,
    words: 'ipset',
    modules: ['ip_set', 'xt_set'],
  },
  recent: {
    missing: ({ extensions }: KernelFacts) => !extensions.includes('recent'),
    words: 'xt_recent',
    modules: ['xt_recent'],
  },
  nft: {
    missing: ({ natNft }: KernelFacts) => !natNft,
    words: 'NAT in nf_tables',
    modules: ['nft_chain_nat'],
  },
}

/** A kernel feature that a lab needs besides iptables. */
export type KernelNeed = keyof typeof features

/** The modules that contain a feature, each of which may be compiled in. */
export const modulesOf = (need: KernelNeed): readonly string[] => features[need].modules

export const needInWords = (need: KernelNeed): string => features[need].words

/** The embedded cluster's kernel is known; it lacks nft_chain_nat (Debian's user-mode-linux). */
const embeddedLacks: readonly KernelNeed[] = ['nft']

/**
 * The features that a lab needs and a kernel lacks, in words; empty if it lacks none. User-Mode Linux ('embedded') is known
 * without a probe.
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
 * The features of this machine's own kernel in namespaces, probed in a temporary guest; `packages` as ensurePackages
 * returns them.
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

/** Before it, network namespaces of a user namespace have no settings of ip_vs (ip_vs_control_net_init_sysctl), which kube-proxy needs. */
const IPVS_IN_NAMESPACES = [6, 11] as const

/**
 * Why this machine's own kernel has no IPVS for the cluster, and what changes that; undefined where it has. That the user
 * is root of the machine changes nothing: the guest is never run with root's rights there. Pure.
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
