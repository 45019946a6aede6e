import { readCapturedNode } from '../../dataplane/capture.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { describeFlush, planFlush } from '../../dataplane/kube-proxy/flush.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { DeadlineError, waitFor } from '../../host/wait.ts'
import type { Cluster } from '../driver.ts'
import type { KubeClient } from '../kube-client.ts'
import { readNode } from '../snapshot.ts'
import {
  ipvsError,
  KubeProxyError,
  type KubeProxyPod,
  lastErrorLine,
  listKubeProxyPods,
  proxierLine,
  readLog,
} from './kube-proxy-pods.ts'
import { explainCrash } from './rollout.ts'

/** One node's evidence of its mode. */
export interface ModeProof {
  node: string
  proxyMode: string | undefined
  logLine: string | undefined
  /**
   * Its log message if it can't run in IPVS mode; up to 1.25 it then continues in iptables mode.
   */
  complaint?: string | undefined
  /** The last error in its log. */
  lastError?: string | undefined
  /**
   * What another mode left on the node, a line for each kind; empty in userspace mode, whose
   * leftovers are not known.
   */
  leftovers: string[]
  /** What the node holds of the rules of each mode, in words; nothing of a mode that is missing. */
  holds: ReadonlyMap<string, string>
  dummyAddresses: number | undefined
  schedulers: string[]
}

/** Reads one node, with one exec. Rejects when it can't be reached. */
async function proveNode(
  cluster: Cluster,
  client: KubeClient,
  { node, pod }: KubeProxyPod,
): Promise<ModeProof> {
  const [{ files }, log] = await Promise.all([readNode(cluster, node), readLog(client, pod)])
  const { state } = readCapturedNode(files)
  const proxyMode = files.get('proxyMode')?.trim() || undefined
  const isFlushed = proxyMode === 'iptables' || proxyMode === 'ipvs' || proxyMode === 'nftables'
  return {
    node,
    proxyMode,
    lastError: lastErrorLine(log),
    leftovers: isFlushed ? describeFlush(planFlush(proxyMode, state, state.ip6tables)) : [],
    logLine: proxierLine(log),
    complaint: ipvsError(log),
    holds: rulesByMode(state),
    dummyAddresses: state.links.find(({ name }) => name === DUMMY_LINK)?.addresses.length,
    schedulers: [...new Set(state.virtualServers.map(({ scheduler }) => scheduler))].sort(),
  }
}

/** The rules of one mode may be there beside those that another one left. */
function rulesByMode({ iptables, nftables }: NodeState): Map<KubeProxyMode, string> {
  const found = new Map<KubeProxyMode, string>()
  const rulesOf = (chain: string) =>
    (iptables.get('nat')?.get(chain)?.rules ?? []).map(({ spec }) => spec)
  // In userspace mode packets from Pods first traverse the chain that redirects to kube-proxy's
  // listeners.
  if (rulesOf('PREROUTING')[0]?.endsWith('-j KUBE-PORTALS-CONTAINER'))
    found.set('userspace', 'PREROUTING begins with KUBE-PORTALS-CONTAINER')
  const addresses =
    nftables?.find(({ family }) => family === 'ip')?.maps.get('service-ips')?.elements.size ?? 0
  if (addresses > 0)
    found.set('nftables', `map service-ips leads ${addresses} addresses to Services`)
  const services = rulesOf('KUBE-SERVICES').join('\n')
  if (/ --match-set KUBE-/.test(services)) found.set('ipvs', 'KUBE-SERVICES matches sets')
  else if (/ -j KUBE-SV[CL]-/.test(services)) found.set('iptables', 'KUBE-SERVICES lists Services')
  return found
}

/**
 * True when /proxyMode, kube-proxy's log and the node's rules agree on this mode, and on the
 * scheduler if one is given.
 */
function proves(proof: ModeProof, mode: KubeProxyMode, scheduler?: string): boolean {
  const { proxyMode, logLine, dummyAddresses = 0, holds, schedulers } = proof
  if (proxyMode !== mode || !logLine?.includes(`Using ${mode} Proxier`) || !holds.has(mode))
    return false
  return (
    mode !== 'ipvs' ||
    (dummyAddresses > 0 && (scheduler === undefined || schedulers.join() === scheduler))
  )
}

/** A proof as one line of text. */
export function describeProof({
  node,
  proxyMode,
  logLine,
  lastError,
  dummyAddresses,
  holds,
  schedulers,
}: ModeProof): string {
  const logged = /Using \S+ Proxier/.exec(logLine ?? '')?.[0]
  const [
    first = lastError === undefined
      ? 'no rules yet'
      : `no rules yet (its last error: ${lastError})`,
  ] = holds.values()
  const state = [
    holds.get(proxyMode ?? '') ?? first,
    dummyAddresses === undefined ? 'no kube-ipvs0' : `kube-ipvs0 has ${dummyAddresses} addresses`,
    ...(holds.has('ipvs') && schedulers.length > 0
      ? [`scheduler ${schedulers.join(' and ')}`]
      : []),
  ]
  return `${node}: /proxyMode is "${proxyMode ?? 'unknown'}", the log says "${logged ?? 'nothing'}", ${state.join(', ')}`
}

const proofDeadlineMs = 90_000

/**
 * kube-proxy up to 1.25 falls back to iptables mode, with a line in its log, if IPVS is not
 * available.
 */
const fellBack = ({ node, complaint }: ModeProof) =>
  new KubeProxyError(
    `kube-proxy on ${node} can't run in mode "ipvs" and continued in mode "iptables", as versions up to 1.25 do: ${complaint}. Services keep working; the ConfigMap still says "ipvs" until you run \`make iptables\`.`,
  )

/**
 * Interval of the reads: reading a node's state takes half as long as a first sync of its
 * kube-proxy.
 */
const proofGapMs = 300

/** A first sync of kube-proxy on an idle machine, with reserve. */
const firstSyncMs = 10_000

export interface WantedMode {
  mode: KubeProxyMode
  scheduler?: string | undefined
  stamp?: string
}

/**
 * Reads each node until it proves its mode: one node after the other, because reading slows down
 * kube-proxies that are still syncing.
 * @throws KubeProxyError with the state of each node that did not prove its mode
 */
export async function awaitProofs(
  cluster: Cluster,
  client: KubeClient,
  { mode, scheduler, stamp }: WantedMode,
  deadlineMs = proofDeadlineMs,
): Promise<ModeProof[]> {
  const proofs = new Map<string, ModeProof>()
  const isUnproven = (proof: ModeProof | undefined) => !proof || !proves(proof, mode, scheduler)
  try {
    return await waitFor(
      `every node to run mode "${mode}"`,
      deadlineMs,
      async () => {
        // Without a readiness probe, a Pod that ends immediately counts as available for a moment.
        if (stamp !== undefined) await explainCrash(client, stamp)
        await cluster.synced(firstSyncMs)
        const pods = await listKubeProxyPods(client)
        for (const pod of pods.filter(({ node }) => isUnproven(proofs.get(node)))) {
          const proof = await proveNode(cluster, client, pod)
          proofs.set(pod.node, proof)
          const { complaint, proxyMode } = proof
          if (mode === 'ipvs' && complaint !== undefined && proxyMode === 'iptables')
            throw fellBack(proof)
          if (isUnproven(proof)) return false
        }
        return pods.length > 0 && pods.flatMap(({ node }) => proofs.get(node) ?? [])
      },
      proofGapMs,
    )
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    throw new KubeProxyError(
      `${error.message} ${[...proofs.values()].filter(isUnproven).map(describeProof).join('; ')}.`,
    )
  }
}
