import type { EngineFacts } from '../kind/engine.ts'
import type { KernelFacts } from './kernel-probe.ts'
import { type DoctorResult, fault, fine, warning } from './result.ts'

/**
 * kind's documentation recommends these when nodes fail with "too many open files"; each node's
 * processes use a few dozen.
 */
const inotify = { instances: 512, watches: 65_536 }

/** kube-proxy's rules in iptables mode need all of these. */
const required = ['comment', 'conntrack', 'addrtype', 'mark', 'MARK', 'statistic', 'MASQUERADE']
/**
 * kube-proxy 1.20–1.25 requires these in IPVS mode; later versions require only the configured one.
 */
const usual = ['rr', 'wrr', 'sh']

/** What the kernel under an engine supports, and the commands that add what is missing. */
export function kernelResults(kernel: KernelFacts, engine: EngineFacts): DoctorResult[] {
  const modules = (names: string) => modulesFix(engine, names)
  const missing = required.filter((one) => !kernel.extensions.includes(one))
  const missingModules = missing.map((one) => `xt_${one.toLowerCase()}`).join(' ')
  return [
    ...ipvsResults(kernel, modules),
    ...(missing.length > 0
      ? [
          fault(
            'iptables',
            `kube-proxy's rules need ${missing.join(', ')}, which this kernel lacks`,
            modules(missingModules),
          ),
        ]
      : []),
    // Without it iptables-restore refuses everything as soon as one Service has sessionAffinity
    // (kind #707, #1740).
    kernel.extensions.includes('recent')
      ? fine('xt_recent', 'sessionAffinity works in iptables mode')
      : warning(
          'xt_recent',
          'missing: one Service with sessionAffinity: ClientIP would stop every update of the rules',
          modules('xt_recent'),
        ),
    backendResult(kernel),
    inotifyResult(kernel, engine),
  ]
}

function ipvsResults(
  { ipvs, schedulers, ipset, dummy }: KernelFacts,
  modules: (names: string) => string,
) {
  if (!ipvs)
    return [
      warning(
        'IPVS',
        'this kernel has no ip_vs: no lab in IPVS mode',
        modules('ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh'),
      ),
    ]
  const missing = usual.filter((one) => !schedulers.includes(one))
  const available = schedulers.join(', ')
  return [
    missing.length === 0
      ? fine('IPVS', `schedulers ${available}`)
      : warning(
          'IPVS',
          `without the scheduler ${missing.join(' and ')}; available: ${available || 'none'}`,
          modules(missing.map((one) => `ip_vs_${one}`).join(' ')),
        ),
    ipset
      ? fine('ipset', 'rules can match against sets')
      : warning(
          'ipset',
          "rules can't match against sets, which IPVS mode requires",
          modules('ip_set xt_set'),
        ),
    ...(dummy ? [] : [warning('dummy device', "kube-ipvs0 can't be created", modules('dummy'))]),
  ]
}

function backendResult({ nodeBackend, natLegacy, natNft }: KernelFacts): DoctorResult {
  const works = [natLegacy ? 'legacy' : '', natNft ? 'nft' : ''].filter(Boolean)
  const found = { 0: 'no back end can create a NAT rule', 1: `only ${works[0]} works` }[
    works.length
  ]
  const detail = `${found ?? 'legacy and nft both work'}${nodeBackend ? `; the node's iptables is ${nodeBackend}` : ''}`
  const broken = works.length === 0 || (nodeBackend !== undefined && !works.includes(nodeBackend))
  return broken ? fault('iptables NAT', detail, 'load iptable_nat') : fine('iptables NAT', detail)
}

function inotifyResult(
  { inotifyInstances, inotifyWatches }: KernelFacts,
  engine: EngineFacts,
): DoctorResult {
  const low = [
    { key: 'max_user_instances', have: inotifyInstances, want: inotify.instances },
    { key: 'max_user_watches', have: inotifyWatches, want: inotify.watches },
  ].filter(({ have, want }) => have > 0 && have < want)
  const detail = `${inotifyInstances} instances, ${inotifyWatches} watches`
  if (low.length === 0) return fine('inotify', detail)
  const settings = low.map(({ key, want }) => `fs.inotify.${key}=${want}`).join(' ')
  const fix = `${locationOf(engine).asRoot} sysctl ${settings}`
  return warning('inotify', `${detail}: nodes may fail with "too many open files"`, fix)
}

interface Location {
  isOf(engine: EngineFacts): boolean
  asRoot: string
  /** How to add modules to its kernel; default: with modprobe. */
  instead?: string
}

/**
 * Where an engine's kernel may run, which decides how it can be changed; else it is this machine's.
 */
const LOCATIONS: readonly Location[] = [
  {
    isOf: ({ operatingSystem }) => /docker desktop/i.test(operatingSystem),
    asRoot: 'docker run --rm --privileged --pid host busybox nsenter -t 1 -m',
    instead:
      "its kernel can't be extended: update Docker Desktop, use an engine in a Linux VM (colima start), or CLUSTER=embedded on Linux",
  },
  {
    isOf: ({ kernel }) => /microsoft/i.test(kernel),
    asRoot: 'sudo',
    instead: 'in Windows: wsl --update && wsl --shutdown; or CLUSTER=embedded, which runs in WSL',
  },
  { isOf: ({ machine }) => /^colima/i.test(machine), asRoot: 'colima ssh -- sudo' },
  {
    isOf: ({ name, operatingSystem, machine }) =>
      name === 'podman' && /coreos|podman-machine/i.test(`${operatingSystem} ${machine}`),
    asRoot: 'podman machine ssh sudo',
  },
]

const locationOf = (engine: EngineFacts): Pick<Location, 'asRoot' | 'instead'> =>
  LOCATIONS.find(({ isOf }) => isOf(engine)) ?? { asRoot: 'sudo' }

function modulesFix(engine: EngineFacts, modules: string): string {
  const { asRoot, instead } = locationOf(engine)
  if (instead !== undefined) return instead
  const load = `${asRoot} modprobe -a ${modules}`
  if (asRoot !== 'sudo') return `${load}; or CLUSTER=embedded on Linux`
  return `${load} (Ubuntu: sudo apt-get install linux-modules-extra-${engine.kernel}); or CLUSTER=embedded`
}
