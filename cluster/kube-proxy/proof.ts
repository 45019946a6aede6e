import { readCapturedNode } from '../../dataplane/capture.ts'
import { DUMMY_LINK, type FlushedMode, type SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Cluster } from '../driver.ts'
import type { KubeClient } from '../kube-client.ts'
import { readNode } from '../snapshot.ts'
import { ipvsComplaint, type KubeProxyPod, proxierLine, readLog } from './kube-proxy-pods.ts'

/** The modes that `make` can switch kube-proxy to; userspace only in versions that have it (up to 1.25; 1.20 is modelled). */
export type RunnableMode = FlushedMode | 'userspace'

/** One node's evidence of its mode. */
export interface ModeProof {
  node: string
  /** The answer of kube-proxy's /proxyMode; undefined if there was none. */
  proxyMode: string | undefined
  /** kube-proxy's log line that names the proxier. */
  logLine: string | undefined
  /** Its log message if it can't run in IPVS mode; up to 1.25 it then continues in iptables mode. */
  complaint?: string | undefined
  /** Addresses on kube-ipvs0, or undefined without that link. */
  dummyAddresses: number | undefined
  /** Whether nat KUBE-SERVICES matches sets (IPVS mode) or leads to a chain per Service (iptables mode). */
  rules: SwitchedMode | 'none'
  /** Whether packets from Pods first traverse the chain that redirects to kube-proxy's listeners (userspace mode). */
  portals: boolean
  /** Number of addresses with ports that lead to a Service in kube-proxy's own table (nftables mode). */
  nftServices: number | undefined
  /** Schedulers of the node's virtual servers. */
  schedulers: string[]
}

/** Reads one node, with one exec. Rejects when it can't be reached. */
export async function proveNode(cluster: Cluster, client: KubeClient, { node, pod }: KubeProxyPod): Promise<ModeProof> {
  const [{ files }, log] = await Promise.all([readNode(cluster, node), readLog(client, pod)])
  const { state } = readCapturedNode(files)
  const rulesOf = (chain: string) => (state.iptables.get('nat')?.get(chain)?.rules ?? []).map(({ spec }) => spec)
  const services = rulesOf('KUBE-SERVICES').join('\n')
  const dummy = state.links.find(({ name }) => name === DUMMY_LINK)
  const table = state.nftables?.find(({ family }) => family === 'ip')
  return {
    node,
    proxyMode: files.get('proxyMode')?.trim() || undefined,
    logLine: proxierLine(log),
    complaint: ipvsComplaint(log),
    dummyAddresses: dummy?.addresses.length,
    nftServices: table && (table.maps.get('service-ips')?.elements.size ?? 0),
    schedulers: [...new Set(state.virtualServers.map(({ scheduler }) => scheduler))].sort(),
    portals: rulesOf('PREROUTING')[0]?.endsWith('-j KUBE-PORTALS-CONTAINER') ?? false,
    rules: / --match-set KUBE-/.test(services) ? 'ipvs' : / -j KUBE-SV[CL]-/.test(services) ? 'iptables' : 'none',
  }
}

/** True when /proxyMode, kube-proxy's log and the node's rules agree on this mode, and on the scheduler if one is given. */
export function proves(proof: ModeProof, mode: RunnableMode, scheduler?: string): boolean {
  const { proxyMode, logLine, dummyAddresses, rules, portals, nftServices, schedulers } = proof
  const isReported = proxyMode === mode && logLine !== undefined && logLine.includes(`Using ${mode} Proxier`)
  if (!isReported) return false
  if (mode === 'userspace') return portals
  if (mode === 'nftables') return (nftServices ?? 0) > 0
  if (rules !== mode) return false
  if (mode === 'iptables') return true
  return (dummyAddresses ?? 0) > 0 && (scheduler === undefined || schedulers.join() === scheduler)
}

/** A proof as one line of text. */
export function describeProof(proof: ModeProof): string {
  const { node, proxyMode, logLine, dummyAddresses, rules, portals, nftServices, schedulers } = proof
  const words = /Using \S+ Proxier/.exec(logLine ?? '')?.[0]
  const described = {
    ipvs: 'KUBE-SERVICES matches sets',
    iptables: 'KUBE-SERVICES lists Services',
    none: 'no rules yet',
  }
  const table = nftServices === undefined ? undefined : `map service-ips leads ${nftServices} addresses to Services`
  const state = [
    portals ? 'PREROUTING begins with KUBE-PORTALS-CONTAINER' : (table ?? described[rules]),
    dummyAddresses === undefined ? 'no kube-ipvs0' : `kube-ipvs0 has ${dummyAddresses} addresses`,
  ]
  if (rules === 'ipvs' && schedulers.length > 0) state.push(`scheduler ${schedulers.join(' and ')}`)
  return `${node}: /proxyMode is "${proxyMode ?? 'unknown'}", the log says "${words ?? 'nothing'}", ${state.join(', ')}`
}
