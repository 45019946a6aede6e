import type { EngineFacts, KernelFacts } from './facts.ts'

/** How bad a result is: `fault` prevents something from running, `warning` may, `fine` and `note` are information. */
export type Severity = 'fine' | 'note' | 'warning' | 'fault'

/** The result of one check, and the command or step that fixes it. */
export interface DoctorResult {
  what: string
  severity: Severity
  detail: string
  fix?: string
}

/**
 * kind's documentation recommends these when nodes fail with "too many open files"; each node's processes use a
 * few dozen.
 */
const inotify = { instances: 512, watches: 65_536 }

/** kube-proxy's rules in iptables mode need all of these. */
const required = ['comment', 'conntrack', 'addrtype', 'mark', 'MARK', 'statistic', 'MASQUERADE']
/** kube-proxy 1.20–1.25 requires these in IPVS mode; later versions require only the configured one. */
const usual = ['rr', 'wrr', 'sh']

/** What the kernel under an engine supports, and the commands that add what is missing. */
export function kernelResults(kernel: KernelFacts, engine: EngineFacts): DoctorResult[] {
  return [
    ...ipvsResults(kernel, engine),
    ...extensionResults(kernel, engine),
    backendResult(kernel),
    ...inotifyResults(kernel, engine),
  ]
}

function ipvsResults({ ipvs, schedulers, ipset, dummy }: KernelFacts, engine: EngineFacts): DoctorResult[] {
  const fixIpvs = modulesFix(engine, 'ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh')
  if (!ipvs)
    return [
      { what: 'IPVS', severity: 'warning', detail: 'this kernel has no ip_vs: no lab in IPVS mode', fix: fixIpvs },
    ]
  const missing = usual.filter((one) => !schedulers.includes(one))
  const results: DoctorResult[] = [
    missing.length > 0
      ? {
          what: 'IPVS',
          severity: 'warning',
          detail: `without the scheduler ${missing.join(' and ')}; available: ${schedulers.join(', ') || 'none'}`,
          fix: modulesFix(engine, missing.map((one) => `ip_vs_${one}`).join(' ')),
        }
      : { what: 'IPVS', severity: 'fine', detail: `schedulers ${schedulers.join(', ')}` },
  ]
  if (!ipset)
    results.push({
      what: 'ipset',
      severity: 'warning',
      detail: "rules can't match against sets, which IPVS mode requires",
      fix: modulesFix(engine, 'ip_set xt_set'),
    })
  else results.push({ what: 'ipset', severity: 'fine', detail: 'rules can match against sets' })
  if (!dummy)
    results.push({
      what: 'dummy device',
      severity: 'warning',
      detail: "kube-ipvs0 can't be created",
      fix: modulesFix(engine, 'dummy'),
    })
  return results
}

function extensionResults({ extensions }: KernelFacts, engine: EngineFacts): DoctorResult[] {
  const results: DoctorResult[] = []
  const missing = required.filter((one) => !extensions.includes(one))
  if (missing.length > 0)
    results.push({
      what: 'iptables',
      severity: 'fault',
      detail: `kube-proxy's rules need ${missing.join(', ')}, which this kernel lacks`,
      fix: modulesFix(engine, missing.map((one) => `xt_${one.toLowerCase()}`).join(' ')),
    })
  // Without it iptables-restore refuses everything as soon as one Service has sessionAffinity (kind #707, #1740).
  if (!extensions.includes('recent'))
    results.push({
      what: 'xt_recent',
      severity: 'warning',
      detail: 'missing: one Service with sessionAffinity: ClientIP would stop every update of the rules',
      fix: modulesFix(engine, 'xt_recent'),
    })
  else results.push({ what: 'xt_recent', severity: 'fine', detail: 'sessionAffinity works in iptables mode' })
  results.push(
    extensions.includes('nfacct')
      ? { what: 'nfacct', severity: 'fine', detail: 'kube-proxy can count the packets it drops' }
      : {
          what: 'nfacct',
          severity: 'note',
          detail: 'missing: kube-proxy from 1.31 on logs an error and counts no drops',
        },
  )
  return results
}

function backendResult({ nodeBackend, natLegacy, natNft }: KernelFacts): DoctorResult {
  const works = [natLegacy ? 'legacy' : '', natNft ? 'nft' : ''].filter(Boolean)
  if (works.length === 0)
    return {
      what: 'iptables NAT',
      severity: 'fault',
      detail: 'no back end can create a NAT rule',
      fix: 'load iptable_nat',
    }
  const both = works.length === 2 ? 'legacy and nft both work' : `only ${works[0]} works`
  const own = nodeBackend ? `; the node's iptables is ${nodeBackend}` : ''
  const broken = nodeBackend !== undefined && !works.includes(nodeBackend)
  return { what: 'iptables NAT', severity: broken ? 'fault' : 'fine', detail: `${both}${own}` }
}

function inotifyResults({ inotifyInstances, inotifyWatches }: KernelFacts, engine: EngineFacts): DoctorResult[] {
  const low = [
    { key: 'max_user_instances', have: inotifyInstances, want: inotify.instances },
    { key: 'max_user_watches', have: inotifyWatches, want: inotify.watches },
  ].filter(({ have, want }) => have > 0 && have < want)
  const detail = `${inotifyInstances} instances, ${inotifyWatches} watches`
  if (low.length === 0) return [{ what: 'inotify', severity: 'fine', detail }]
  const set = low.map(({ key, want }) => `fs.inotify.${key}=${want}`).join(' ')
  return [
    {
      what: 'inotify',
      severity: 'warning',
      detail: `${detail}: nodes may fail with "too many open files"`,
      fix: inMachine(engine, `sysctl ${set}`),
    },
  ]
}

type KernelLocation = 'Docker Desktop' | 'WSL' | 'Colima' | 'Podman machine' | 'this kernel'

/** Where the engine's kernel runs, which decides how it can be changed. */
export function kernelLocation({ name, operatingSystem, machine, kernel }: EngineFacts): KernelLocation {
  if (/docker desktop/i.test(operatingSystem)) return 'Docker Desktop'
  if (/microsoft/i.test(kernel)) return 'WSL'
  if (/^colima/i.test(machine)) return 'Colima'
  if (name === 'podman' && /coreos|podman-machine/i.test(`${operatingSystem} ${machine}`)) return 'Podman machine'
  return 'this kernel'
}

/** A command as root on the machine that the engine runs on. */
function inMachine(engine: EngineFacts, command: string): string {
  switch (kernelLocation(engine)) {
    case 'Docker Desktop':
      return `docker run --rm --privileged --pid host busybox nsenter -t 1 -m ${command}`
    case 'Colima':
      return `colima ssh -- sudo ${command}`
    case 'Podman machine':
      return `podman machine ssh sudo ${command}`
    default:
      return `sudo ${command}`
  }
}

/** How to add missing modules to a kernel. The probe has already tried to load them. */
function modulesFix(engine: EngineFacts, modules: string): string {
  switch (kernelLocation(engine)) {
    case 'Docker Desktop':
      return "its kernel can't be extended: update Docker Desktop, use an engine in a Linux VM (colima start), or CLUSTER=embedded on Linux"
    case 'WSL':
      return 'in Windows: wsl --update && wsl --shutdown; or CLUSTER=embedded, which runs in WSL'
    case 'Colima':
    case 'Podman machine':
      return `${inMachine(engine, `modprobe -a ${modules}`)}; or CLUSTER=embedded on Linux`
    default:
      return `sudo modprobe -a ${modules} (Ubuntu: sudo apt-get install linux-modules-extra-${engine.kernel}); or CLUSTER=embedded`
  }
}
