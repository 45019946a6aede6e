import type { KubeProxyConfig, KubeProxyMode } from '../kube-proxy/config.ts'
import { DUMMY_LINK } from '../kube-proxy/mode-ownership.ts'
import { featuresOf } from '../kube-proxy/versions.ts'
import type { ClusterObjects } from '../objects.ts'
import type { ComparedNode, MigrationSide } from './compare-nodes.ts'
import { stoppedByPolicy } from './firewall-policy.ts'
import type { Circumstance } from './report-shape.ts'

/** What is known about a change of mode. */
interface PlannedChange {
  objects: ClusterObjects
  from: MigrationSide
  to: MigrationSide
  config: KubeProxyConfig
  compared: readonly ComparedNode[]
}

/**
 * What matters besides single Services: kernels, kept connections, leftovers, firewalls, settings
 * of one mode.
 */
export function findCircumstances(change: PlannedChange): Circumstance[] {
  const found = [
    kernels(change),
    gate(change),
    deprecation(change),
    conntrackInvalid(change),
    ...firewalls(change),
    connections(change),
    gap(change),
    affinity(change),
    scheduler(change),
    addresses(change),
    strictArp(change),
    leftovers(change),
    otherAddresses(change),
  ]
  return found.filter((one) => one !== undefined)
}

const OLDEST_KERNEL = [5, 13] as const

/**
 * `5.10.0-28-amd64`: whether it is older than 5.13, the first that nftables mode runs on
 * (KEP-3866).
 */
function isTooOld(kernel: string): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(kernel) ?? []
  if (major === undefined) return false
  return (
    Number(major) < OLDEST_KERNEL[0] ||
    (Number(major) === OLDEST_KERNEL[0] && Number(minor) < OLDEST_KERNEL[1])
  )
}

function kernels({ objects: { nodes }, to }: PlannedChange): Circumstance | undefined {
  const field = 'Node status.nodeInfo.kernelVersion'
  if (to.mode === 'ipvs')
    return {
      id: 'kernel',
      severity: 'check',
      text: 'IPVS mode needs the kernel modules ip_vs, ip_vs_rr (or that of the scheduler), ip_set and xt_set; without them kube-proxy ends since 1.26.',
      field,
      advice: 'Run "modprobe -n ip_vs" on each node.',
      concerns: [],
    }
  if (to.mode !== 'nftables') return undefined
  const old = nodes.filter(({ kernelVersion = '' }) => isTooOld(kernelVersion))
  if (old.length > 0)
    return {
      id: 'kernel',
      severity: 'breaks',
      text: `kube-proxy ends in nftables mode on a kernel older than 5.13: ${[...new Set(old.map(({ kernelVersion }) => kernelVersion))].join(', ')}.`,
      field,
      advice: 'Update the kernel of these nodes first.',
      concerns: old.map(({ name }) => name),
    }
  const unknown = nodes.filter(({ kernelVersion }) => kernelVersion === undefined)
  if (unknown.length === 0) return undefined
  return {
    id: 'kernel',
    severity: 'check',
    text: 'nftables mode needs Linux 5.13 or newer with nf_tables; these Nodes do not report their kernel.',
    field,
    advice: 'Run "uname -r" on each node.',
    concerns: unknown.map(({ name }) => name),
  }
}

function gate({ to }: PlannedChange): Circumstance | undefined {
  if (to.mode !== 'nftables' || featuresOf(to.version).nftables !== 'gated') return undefined
  return {
    id: 'feature-gate',
    severity: 'check',
    text: `kube-proxy ${to.version} has nftables mode only behind the feature gate NFTablesProxyMode (on by default since 1.31, GA in 1.33).`,
    field: 'featureGates (kube-proxy)',
    advice: 'Update kube-proxy to 1.31 or newer first, or set the gate.',
    concerns: [],
  }
}

function deprecation({ to }: PlannedChange): Circumstance | undefined {
  if (to.mode !== 'ipvs') return undefined
  return {
    id: 'deprecated',
    severity: 'note',
    text: 'IPVS mode is deprecated since 1.35 (KEP-5495).',
    field: 'mode (kube-proxy)',
    advice: 'Choose nftables for clusters on Linux 5.13 or newer.',
    concerns: [],
  }
}

/** Whether the rules of a side drop packets that conntrack cannot assign to a connection. */
const dropsInvalid = ({ state }: ComparedNode['before']): boolean =>
  [...(state.iptables.get('filter')?.values() ?? [])].some(({ rules }) =>
    rules.some(({ spec }) => spec.includes('--ctstate INVALID') && spec.endsWith('-j DROP')),
  )

function conntrackInvalid({ compared }: PlannedChange): Circumstance | undefined {
  const loses = compared.some(({ before, after }) => dropsInvalid(before) && !dropsInvalid(after))
  if (!loses) return undefined
  return {
    id: 'invalid-packets',
    severity: 'check',
    text: 'The new mode has no rule that drops INVALID packets: one that conntrack takes for out of window passes untranslated, and its receiver can reset the connection (kubernetes#74839).',
    field: 'conntrack.tcpBeLiberal (kube-proxy)',
    advice:
      'Set conntrack.tcpBeLiberal: true (1.29 and newer), or the sysctl nf_conntrack_tcp_be_liberal=1.',
    concerns: [],
  }
}

const ACCEPT_TRANSLATED = {
  INPUT: 'Accept the Service addresses and node ports in INPUT.',
  FORWARD:
    'Accept translated connections: iptables -A FORWARD -m conntrack --ctstate DNAT -j ACCEPT.',
}

/** What a firewall with the policy DROP would stop on the first node. */
function firewalls({ objects, compared, from, to }: PlannedChange): (Circumstance | undefined)[] {
  const [first] = compared
  if (!first || from.mode === 'userspace' || to.mode === 'userspace') return []
  const stoppedIn = stoppedByPolicy(objects, first)
  return (['INPUT', 'FORWARD'] as const).map((chain) => {
    const stopped = stoppedIn[chain]
    const [probe] = stopped
    if (!probe) return undefined
    const { destination, port } = probe.packet
    return {
      id: `firewall-${chain.toLowerCase()}`,
      severity: 'check',
      text: `If a firewall of the nodes drops what it does not know in ${chain}, ${stopped.length} kinds of calls stop, such as ${destination} port ${port}, which ${from.mode} mode gets past it.`,
      field: `iptables -S ${chain}, nft list ruleset (nodes)`,
      advice: ACCEPT_TRANSLATED[chain],
      concerns: [...new Set(stopped.flatMap(({ port }) => port?.name.split(':')[0] ?? []))],
    }
  })
}

/**
 * What happens to connections that exist when the new kube-proxy starts
 * (test/embedded/migration.test.ts).
 */
const KEPT: Partial<Record<`${KubeProxyMode} ${KubeProxyMode}`, [string, string]>> = {
  'ipvs nftables': [
    'The new kube-proxy removes the virtual servers and kube-ipvs0 when it starts: connections through IPVS stop on that node.',
    'Drain each node, or change it when its clients can connect again.',
  ],
  'ipvs iptables': [
    'Connections through IPVS stay until its virtual servers and kube-ipvs0 are removed; then they stop, as those that processes of the node itself opened meanwhile, whose source is the ClusterIP.',
    'Clean up on each node when these connections have ended (docs/leaving-ipvs).',
  ],
}
const CONNTRACK: [string, string] = [
  'Existing connections keep their endpoint, because conntrack has their translation, whatever the rules are.',
  'Do not flush conntrack during the change.',
]
const RELAYED: [string, string] = [
  'kube-proxy itself relays connections in userspace mode: they end with it.',
  'Change the mode when clients can connect again.',
]

function connections({ from, to }: PlannedChange): Circumstance | undefined {
  if (from.mode === to.mode) return undefined
  const relays = from.mode === 'userspace'
  const [text, advice] = relays ? RELAYED : (KEPT[`${from.mode} ${to.mode}`] ?? CONNTRACK)
  return {
    id: 'kept-connections',
    severity: text === CONNTRACK[0] ? 'note' : 'check',
    text,
    field: 'mode (kube-proxy)',
    advice,
    concerns: [],
  }
}

/**
 * platformCleanup of cmd/kube-proxy runs before the first sync; test/embedded/leaving-ipvs.test.ts
 * saw the refusals.
 */
function gap({ from, to }: PlannedChange): Circumstance | undefined {
  if (to.mode !== 'nftables' || from.mode === 'nftables') return undefined
  return {
    id: 'moment-without-rules',
    severity: 'check',
    text: 'When kube-proxy starts in nftables mode it removes the rules of the other modes before it writes its own: for a moment new connections to node ports are refused, and those to ClusterIPs leave the node.',
    field: 'mode (kube-proxy)',
    advice:
      'Change node by node, each out of its load balancers, or let a chain drop what is not translated, so that clients repeat it (docs/leaving-ipvs).',
    concerns: [],
  }
}

function affinity({ objects, from, to }: PlannedChange): Circumstance | undefined {
  const sticky = objects.services.filter(({ sessionAffinity }) => sessionAffinity === 'ClientIP')
  if (sticky.length === 0 || from.mode === to.mode) return undefined
  const inIpvs =
    from.mode === 'ipvs' || to.mode === 'ipvs'
      ? ' IPVS remembers clients for each address and port, the other modes for the whole Service.'
      : ''
  return {
    id: 'session-affinity',
    severity: 'check',
    text: `The modes keep the clients of sessionAffinity in different places, so each client is assigned to an endpoint again.${inIpvs}`,
    field: 'spec.sessionAffinity',
    advice: 'Change the mode when sessions may be lost, or keep sessions outside of the Pods.',
    concerns: sticky.map(({ namespace, name }) => `${namespace}/${name}`),
  }
}

/** Schedulers by which the client determines the endpoint. */
const HASHING = new Set(['sh', 'dh', 'mh'])

function scheduler({ config, from, to, objects }: PlannedChange): Circumstance | undefined {
  if (from.mode === to.mode || (from.mode !== 'ipvs' && to.mode !== 'ipvs')) return undefined
  const { scheduler: name } = config.ipvs
  const leaves = from.mode === 'ipvs'
  const sticks = HASHING.has(name) && leaves
  return {
    id: 'scheduler',
    severity: sticks ? 'check' : 'note',
    text: leaves
      ? `The scheduler "${name}" of IPVS is gone: each new connection goes to an endpoint at random, with equal chances${sticks ? ', so a client no longer stays with one' : ''}.`
      : `IPVS selects endpoints by the scheduler "${name}" instead of at random.`,
    field: 'ipvs.scheduler (kube-proxy)',
    advice: sticks
      ? 'Set sessionAffinity: ClientIP on Services whose clients must stay.'
      : 'Nothing to do.',
    concerns: sticks ? objects.services.flatMap(namesWithoutAffinity) : [],
  }
}

const namesWithoutAffinity = ({
  namespace,
  name,
  sessionAffinity,
  clusterIPs,
}: ClusterObjects['services'][number]) =>
  sessionAffinity === 'None' && clusterIPs.length > 0 ? [`${namespace}/${name}`] : []

const hasDummy = ({ state }: ComparedNode['before']): boolean =>
  state.links.some(({ name }) => name === DUMMY_LINK)

function addresses({ compared }: PlannedChange): Circumstance | undefined {
  const [first] = compared
  if (!first || hasDummy(first.before) === hasDummy(first.after)) return undefined
  const binds = hasDummy(first.after)
  return {
    id: 'service-addresses',
    severity: 'note',
    text: `${binds ? 'Each node gets' : 'Nodes lose'} the addresses of all Services (kube-ipvs0): ${binds ? 'a ping of a ClusterIP is then answered by the node itself' : 'a ping of a ClusterIP is no longer answered'}.`,
    field: 'spec.clusterIPs, spec.externalIPs, status.loadBalancer.ingress',
    advice: 'Let monitoring connect to a port of the Service instead of sending a ping.',
    concerns: [],
  }
}

function strictArp({ config, objects, from, to }: PlannedChange): Circumstance | undefined {
  if (from.mode === to.mode) return undefined
  const balanced = objects.services.filter(({ loadBalancerIngress, externalIPs }) =>
    [...loadBalancerIngress.map(({ ip }) => ip), ...externalIPs].some(Boolean),
  )
  const concerns = balanced.map(({ namespace, name }) => `${namespace}/${name}`)
  const field = 'ipvs.strictARP (kube-proxy)'
  if (from.mode === 'ipvs' && config.ipvs.strictARP)
    return {
      id: 'strict-arp',
      severity: 'note',
      text: 'The sysctls of strictARP (arp_ignore=1, arp_announce=2) stay on the nodes; no other mode needs them.',
      field,
      advice:
        'Set net.ipv4.conf.all.arp_ignore=0 and arp_announce=0, unless something else needs them.',
      concerns: [],
    }
  if (to.mode !== 'ipvs' || config.ipvs.strictARP || concerns.length === 0) return undefined
  return {
    id: 'strict-arp',
    severity: 'check',
    text: 'Every node binds these external addresses and answers ARP requests for them (kubernetes#59976), so a load balancer in the same network, such as MetalLB in mode L2, may lose them.',
    field,
    advice: 'Set ipvs.strictARP: true.',
    concerns,
  }
}

function leftovers({ from, to }: PlannedChange): Circumstance | undefined {
  const both = [from.mode, to.mode]
  if (from.mode === to.mode || both.includes('nftables')) return undefined
  return {
    id: 'leftovers',
    severity: 'check',
    text: `kube-proxy leaves the rules of ${from.mode} mode on the nodes; they still reject and translate what matches them (a kube-proxy of nftables mode removes those of the others).`,
    field: 'mode (kube-proxy)',
    advice:
      'Restart the nodes one after the other. "kube-proxy --cleanup" removes the rules of all modes: run it on a drained node, before the new kube-proxy starts.',
    concerns: [],
  }
}

/** Node ports on addresses that no object lists can't be traced. */
function otherAddresses({ config, from, to, objects }: PlannedChange): Circumstance | undefined {
  const isRestricted = (mode: KubeProxyMode) =>
    mode === 'nftables' && config.nodePortAddresses.length === 0
  const ports = objects.services.filter(({ ports }) => ports.some(({ nodePort }) => nodePort !== 0))
  if (!isRestricted(to.mode) || isRestricted(from.mode) || ports.length === 0) return undefined
  return {
    id: 'other-node-addresses',
    severity: 'check',
    text: 'Node ports stop on every address of a node that is not its first InternalIP: also on those of other interfaces (VPN, storage, keepalived), which no object lists.',
    field: 'nodePortAddresses (kube-proxy)',
    advice: 'List the ranges of all addresses that clients use in nodePortAddresses.',
    concerns: ports.map(({ namespace, name }) => `${namespace}/${name}`),
  }
}
