import type { KubeProxyMode } from '../kube-proxy/config.ts'
import type { ProxierInput } from '../kube-proxy/proxier.ts'
import { categorizeEndpoints, type ServicePort } from '../kube-proxy/service-ports.ts'
import type { MigrationProbe } from './probes.ts'

/**
 * What explains a change: the field that decides, what the modes do with it, and what to do about
 * it.
 */
export interface MigrationCause {
  id: string
  /** The field of the Service, or of kube-proxy's configuration. */
  field: string
  /**
   * What a mode does, as the predicate of a sentence; absent for one that has no part in this
   * cause.
   */
  modes: Partial<Record<KubeProxyMode, string>>
  /** What to do before the change if it matters, as an instruction. */
  advice: string
}

const PRIMARY = 'serves node ports on the primary address of the node only (KEP-3866)'

/**
 * Explanations by id. The changes themselves are found by tracing; these texts only say why, and
 * what helps.
 */
const CAUSES = {
  'node-port-on-loopback': {
    field: 'spec.ports[].nodePort',
    modes: {
      iptables: 'serves node ports on 127.0.0.1 while localhostNodePorts is true',
      userspace: 'serves node ports on 127.0.0.1',
      ipvs: 'has no virtual server that answers on 127.0.0.1 (kubernetes#96879)',
      nftables: 'serves no node port on a loopback address (KEP-3866)',
    },
    advice: "Let the clients on the node call the Service's ClusterIP, or the node's own address.",
  },
  'node-port-address': {
    field: 'nodePortAddresses (kube-proxy)',
    modes: {
      iptables: 'serves node ports on every address of the node',
      userspace: 'serves node ports on every address of the node',
      ipvs: 'serves node ports on every address of the node',
      nftables: PRIMARY,
    },
    advice:
      "Call the node's primary address, or list the ranges of the others in nodePortAddresses.",
  },
  'unused-port': {
    field: 'spec.ports',
    modes: {
      iptables: 'has no rule for other ports of a ClusterIP',
      userspace: 'has no rule for other ports of a ClusterIP',
      ipvs: 'binds ClusterIPs to kube-ipvs0: other ports end on the node',
      nftables: 'rejects other ports of a ClusterIP (chain cluster-ips-check)',
    },
    advice: 'Nothing to do, unless a client waits for one kind of failure.',
  },
  'unallocated-cluster-ip': {
    field: 'ServiceCIDR',
    modes: {
      iptables: 'has no rule for unallocated addresses',
      userspace: 'has no rule for unallocated addresses',
      ipvs: 'has no rule for unallocated addresses',
      nftables: 'drops unallocated addresses of the ServiceCIDRs since 1.33',
    },
    advice: 'Do not use addresses of the Service range for anything but Services.',
  },
  'source-ranges': {
    field: 'spec.loadBalancerSourceRanges',
    modes: {
      iptables: 'drops other sources in KUBE-PROXY-FIREWALL',
      ipvs: 'drops other sources by ipsets, which cannot hold a range of length 0',
      nftables: 'drops other sources before the translation (map firewall-ips)',
    },
    advice:
      'List every range that must pass, also those of the Pods and nodes that call the address.',
  },
  'no-endpoints': {
    field: 'EndpointSlice endpoints[].conditions',
    modes: {
      iptables: 'rejects a Service without endpoints in KUBE-SERVICES and KUBE-EXTERNAL-SERVICES',
      userspace: 'accepts connections for a Service without endpoints, and closes them',
      ipvs: 'has a virtual server without real servers',
      nftables: 'rejects a Service without endpoints (map no-endpoint-services)',
    },
    advice: 'Nothing to do: the Service has no endpoint that can answer.',
  },
  'external-policy': {
    field: 'spec.externalTrafficPolicy',
    modes: {
      iptables: 'applies Local to clients outside; Pods and the node reach every endpoint',
      userspace: 'ignores it',
      ipvs: "applies Local to Pods and the node too, and without an endpoint here uses the other nodes'",
      nftables: 'applies Local to clients outside; Pods and the node reach every endpoint',
    },
    advice: 'Let Pods and nodes call the ClusterIP; outside, call nodes that have an endpoint.',
  },
  'internal-policy': {
    field: 'spec.internalTrafficPolicy',
    modes: {
      iptables: 'drops packets to a ClusterIP with Local if the node has no endpoint',
      userspace: 'ignores it',
      ipvs: 'ignores Local on a node without an endpoint if the Service has external addresses',
      nftables: 'drops packets to a ClusterIP with Local if the node has no endpoint',
    },
    advice:
      'Run an endpoint on each node that calls the Service, or set internalTrafficPolicy: Cluster.',
  },
  'masquerade-all': {
    field: 'nftables.masqueradeAll, iptables.masqueradeAll (kube-proxy)',
    modes: {
      iptables: 'reads iptables.masqueradeAll',
      ipvs: 'reads iptables.masqueradeAll',
      nftables: 'reads nftables.masqueradeAll',
    },
    advice: 'Set the field of the new mode to the value of the old one.',
  },
  'pod-range': {
    field: 'clusterCIDR, detectLocalMode (kube-proxy)',
    modes: {
      iptables: 'masquerades clients of a ClusterIP that are not in the Pod range',
      ipvs: 'masquerades clients of a ClusterIP that are not in the Pod range, without one the node itself',
      nftables: 'masquerades clients of a ClusterIP that are not in the Pod range',
      userspace: 'answers every client from the node',
    },
    advice: 'Set clusterCIDR to the Pod range.',
  },
  'external-address': {
    field: 'spec.externalIPs, status.loadBalancer.ingress',
    modes: {
      iptables: 'translates external addresses by rules; no address of the node is added',
      userspace: 'translates external addresses by rules',
      ipvs: 'binds external addresses to kube-ipvs0 on every node',
      nftables: 'translates external addresses by rules; no address of the node is added',
    },
    advice: 'Let clients inside the cluster call the ClusterIP.',
  },
  userspace: {
    field: 'mode (kube-proxy)',
    modes: { userspace: 'relays every connection in kube-proxy itself, so endpoints see the node' },
    advice: 'Do not let endpoints identify clients by their address before the change.',
  },
  version: {
    field: "kube-proxy's version",
    modes: {},
    advice: 'Change the version first and the mode later, to see which of them matters.',
  },
  rules: {
    field: 'spec',
    modes: {},
    advice: 'Compare the rules of both modes: scripts/expect.ts prints them.',
  },
} as const satisfies Record<string, Omit<MigrationCause, 'id'>>

export type CauseId = keyof typeof CAUSES

/** The explanation with this id. */
export const causeOf = (id: CauseId): MigrationCause => ({ id, ...CAUSES[id] })

/** Of one probe, what the two proxiers of its node have as input. */
export interface ProxierPair {
  before: { mode: KubeProxyMode; proxier: ProxierInput }
  after: { mode: KubeProxyMode; proxier: ProxierInput }
}

const masqueradesAll = ({ mode, proxier: { config } }: ProxierPair['before']): boolean =>
  (mode === 'nftables' ? config.nftables : config).masqueradeAll

const isUserspace = ({ mode }: ProxierPair['before']): boolean => mode === 'userspace'

const servesPrimaryOnly = ({ mode, proxier }: ProxierPair['before']): boolean =>
  mode === 'nftables' && !proxier.nodePortAddresses.all

/** The probable cause of a change on one probe. */
export function findCause(probe: MigrationProbe, pair: ProxierPair): CauseId {
  const { target, port } = probe
  const { before, after } = pair
  if (target === 'unused port') return 'unused-port'
  if (target === 'unallocated ClusterIP') return 'unallocated-cluster-ip'
  if (!port) return 'rules'
  if (target === 'node port on loopback') return 'node-port-on-loopback'
  if (
    target === 'node port on another address' &&
    servesPrimaryOnly(before) !== servesPrimaryOnly(after)
  )
    return 'node-port-address'
  if (!hasEndpoints(port, after.proxier)) return 'no-endpoints'
  if (before.mode === after.mode) return 'version'
  return findCauseBetweenModes(probe, port, pair)
}

/** The cause of a change between two modes, for a Service port that has endpoints. */
function findCauseBetweenModes(
  { target }: MigrationProbe,
  port: ServicePort,
  { before, after }: ProxierPair,
): CauseId {
  if (target === 'load balancer' && port.sourceRanges.length > 0) return 'source-ranges'
  if (target === 'ClusterIP' && port.internalLocal) return 'internal-policy'
  if (target !== 'ClusterIP' && port.externalLocal) return 'external-policy'
  if (isUserspace(before) || isUserspace(after)) return 'userspace'
  if (target === 'ClusterIP')
    return masqueradesAll(before) === masqueradesAll(after) ? 'pod-range' : 'masquerade-all'
  return target.startsWith('node port') ? 'rules' : 'external-address'
}

function hasEndpoints(port: ServicePort, around: ProxierInput): boolean {
  const { features, node, zone } = around
  return categorizeEndpoints(port, { features, node, zone }).any
}
