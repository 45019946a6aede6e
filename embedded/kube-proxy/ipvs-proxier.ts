import { printIptablesSave, type Ruleset } from '../../dataplane/iptables-save.ts'
import type { VirtualServer } from '../../dataplane/ipvsadm-save.ts'
import { applySwitch } from '../../dataplane/kube-proxy/switch.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { busyRealServers, type GuestNode, restoreCommand, type Sysctl } from './guest-node.ts'
import { fullInput, tableInput } from './iptables-proxier.ts'
import { addressInputs, ipsetInput, realServerKey, serverInputs } from './ipvs-input.ts'
import { type Logger, StartFailure } from './settings.ts'
import { ownAddresses, type Proxier, type ProxierContext, predictFor } from './sync-loop.ts'

const sysctls: readonly Sysctl[] = [
  ['net/ipv4/vs/conntrack', 1],
  ['net/ipv4/vs/expire_nodest_conn', 1],
  ['net/ipv4/vs/expire_quiescent_template', 1],
  ['net/ipv4/ip_forward', 1],
]
/** Not reset when strictARP is disabled, as in the genuine kube-proxy. */
const strictARP: readonly Sysctl[] = [
  ['net/ipv4/conf/all/arp_ignore', 1],
  ['net/ipv4/conf/all/arp_announce', 2],
]

/** Interval at which real servers with weight 0 are checked (pkg/proxy/ipvs graceful_termination.go). */
const terminationCheckMs = 60_000

/**
 * kube-proxy's IPVS mode. The periodic sync reads the node and corrects all differences; a sync for a change of the API
 * writes the differences to the state that this kube-proxy has programmed, which is the same unless another process changed
 * it.
 */
export class IpvsProxier implements Proxier {
  readonly maxIntervalMs: number
  addresses: ReadonlySet<string> = new Set()
  private readonly context: ProxierContext
  private held: NodeState | undefined
  private first = true
  private terminating: ReadonlySet<string> = new Set()
  private terminationCheckedAt = 0

  constructor(context: ProxierContext) {
    this.context = context
    this.maxIntervalMs = context.settings.syncPeriodMs
  }

  async prepare(): Promise<Sysctl[]> {
    const { guest, log, settings, version } = this.context
    await checkIpvs(guest, settings.config.ipvs.scheduler, log)
    log('I', 'server_linux.go:182', 'Using ipvs Proxier')
    if (Number(/^v?1\.(\d+)/.exec(version)?.[1]) >= 35)
      log(
        'E',
        'server_linux.go:196',
        "The ipvs proxier is now deprecated and may be removed in a future release. Please use 'nftables' instead.",
      )
    if (settings.namedScheduler === '') log('I', 'proxier.go:337', 'IPVS scheduler not specified, use rr by default')
    for (const name of ['KUBE-6-LOAD-BALANCER-SOURCE-CIDR', 'KUBE-6-NODE-PORT-LOCAL-SCTP-HASH'])
      log('I', 'ipset.go:116', 'Ipset name truncated', { ipSetName: name, truncatedName: name.slice(0, 31) })
    return settings.config.ipvs.strictARP ? [...sysctls, ...strictARP] : [...sysctls]
  }

  async sync(periodic: boolean): Promise<void> {
    const { guest, settings, log } = this.context
    const full = periodic || !this.held
    const held = (full ? undefined : this.held) ?? (await guest.read())
    if (full) this.addresses = new Set(ownAddresses(held.links))
    const wanted = predictFor(this.context, 'ipvs', this.addresses)
    const { excludeCIDRs } = settings.config.ipvs
    const servers = serverInputs({
      wanted: wanted.virtualServers,
      held: held.virtualServers,
      busy: await this.busy(wanted.virtualServers, held.virtualServers),
      terminating: this.terminating,
      first: this.first,
      excludeCIDRs,
    })
    const addresses = addressInputs(wanted.links, held.links)
    const rules = full ? fullInput(wanted.iptables, held.iptables, []) : changedRules(wanted.iptables, held.iptables)
    const result = await guest.apply([
      { command: 'ipset restore -exist', input: ipsetInput(wanted.ipsets, held.ipsets) },
      { command: 'ip -force -batch -', input: addresses.add },
      { command: 'ipvsadm -R', input: servers.add, complains: true },
      // Addresses and virtual servers are removed only after no rule needs them.
      { command: restoreCommand, input: rules, needed: true },
      { command: 'ip -force -batch -', input: addresses.remove },
      { command: 'ipvsadm -R', input: servers.remove, complains: true },
    ])
    this.terminating = servers.terminating
    if (!result.ok) {
      this.held = undefined
      log('E', 'proxier.go:1383', 'Failed to sync ipvs rules', { err: result.errors.join('; ') })
      throw new Error('retrying')
    }
    this.first = false
    const after = applySwitch(held, wanted, { mode: 'ipvs', excludeCIDRs })
    this.held = {
      ...after,
      virtualServers: withTerminating(after.virtualServers, held.virtualServers, this.terminating),
    }
  }

  stop(): void {
    this.held = undefined
  }

  /** Real servers to keep although they are no longer wanted, because connections are open to them. */
  private async busy(wanted: readonly VirtualServer[], held: readonly VirtualServer[]): Promise<ReadonlySet<string>> {
    const unwanted = unwantedRealServers(wanted, held)
    if (unwanted.size === 0) return unwanted
    const isNew = [...unwanted].some((key) => !this.terminating.has(key))
    const due = Date.now() - this.terminationCheckedAt >= terminationCheckMs
    if (!isNew && !due) return this.terminating
    const busy = await busyRealServers(this.context.guest, unwanted)
    if (due) this.terminationCheckedAt = Date.now()
    else for (const key of this.terminating) if (unwanted.has(key)) busy.add(key)
    return busy
  }
}

/** Only TCP waits for its connections; UDP and SCTP real servers are deleted immediately (IsRsGracefulTerminationNeeded). */
function unwantedRealServers(wanted: readonly VirtualServer[], held: readonly VirtualServer[]): Set<string> {
  const kept = new Set(wanted.flatMap((server) => server.realServers.map((real) => realServerKey(server, real))))
  const tcp = held.filter(({ protocol }) => protocol === 'TCP')
  const keys = tcp.flatMap((server) => server.realServers.map((real) => realServerKey(server, real)))
  return new Set(keys.filter((key) => !kept.has(key)))
}

function withTerminating(
  servers: readonly VirtualServer[],
  held: readonly VirtualServer[],
  terminating: ReadonlySet<string>,
): VirtualServer[] {
  if (terminating.size === 0) return [...servers]
  const old = new Map(held.map((server) => [`${server.protocol} ${server.address} ${server.port}`, server]))
  return servers.map((server) => {
    const before = old.get(`${server.protocol} ${server.address} ${server.port}`)
    const ending = before?.realServers.filter((real) => terminating.has(realServerKey(server, real))) ?? []
    return { ...server, realServers: [...server.realServers, ...ending.map((real) => ({ ...real, weight: 0 }))] }
  })
}

/** Tables whose rules have changed: in IPVS mode they do not depend on the number of Services. */
function changedRules(wanted: Ruleset, held: Ruleset): string {
  let input = ''
  for (const [name, table] of wanted) {
    const own = new Map([...table].filter(([, { policy }]) => policy === '-'))
    const standing = new Map(
      [...own.keys()].flatMap((chain) => {
        const found = held.get(name)?.get(chain)
        return found ? [[chain, found] as const] : []
      }),
    )
    const text = (of: typeof own) =>
      printIptablesSave(
        new Map([[name, new Map([...of].map(([key, { rules }]) => [key, { name: key, policy: '-', rules }]))]]),
      )
    if (text(own) !== text(standing)) input += tableInput(name, { wanted: table })
  }
  return input
}

/**
 * kube-proxy's test of a kernel before it runs in IPVS mode (1.27–1.34: CanUseIPVSProxier): IPVS is present, ipset runs, and
 * a virtual server with the scheduler can be created on a test address of RFC 5737. The modprobe replaces the loading of
 * modules that a genuine kube-proxy's netlink request causes.
 */
const probe = (scheduler: string) => `
command -v ipset >/dev/null || { echo 'no-ipset executable file not found in $PATH'; exit; }
# The module of a scheduler is loaded by the first virtual server that asks for it: then nothing is left to be tried.
[ -d '/sys/module/ip_vs_${scheduler}' ] && [ -d /sys/module/xt_set ] && [ -d /sys/module/dummy ] && { echo fine; exit; }
modprobe -qab ip_vs 'ip_vs_${scheduler}' ip_set xt_set dummy 2>/dev/null
[ -e /proc/net/ip_vs ] || { echo no-ipvs; exit; }
error=$(ipset --version 2>&1) || { echo "no-ipset $error"; exit; }
said=$(printf '%s\\n' '-A -t 198.51.100.0:20000 -s ${scheduler}' '-D -t 198.51.100.0:20000' | ipvsadm -R 2>&1)
[ -z "$said" ] || { echo no-scheduler; exit; }
echo fine
`

/** @throws StartFailure with kube-proxy's message if the kernel does not support it */
async function checkIpvs(node: GuestNode, scheduler: string, log: Logger): Promise<void> {
  const safe = /^[\w-]+$/.test(scheduler) ? scheduler : 'no-such-scheduler'
  const { stdout } = await node.run(probe(safe))
  const answer = stdout.trim()
  if (answer === 'fine') return
  let reason = 'Ipvs not supported by the kernel'
  if (answer.startsWith('no-ipset')) reason = `error getting ipset version, error: ${answer.slice(9)}`
  else if (answer === 'no-scheduler') {
    reason = 'no such file or directory'
    log('E', 'proxier.go:651', 'Could not create dummy VS', { err: reason, scheduler })
  }
  throw new StartFailure(`can't use the IPVS proxier: ${reason}`)
}
