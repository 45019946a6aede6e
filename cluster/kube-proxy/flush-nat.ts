import { readCapturedNode } from '../../dataplane/capture.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import {
  describeFlush,
  type FlushPlan,
  isEmptyFlush,
  planFlush,
} from '../../dataplane/kube-proxy/flush.ts'
import {
  type KernelMode,
  printVirtualServerDeletions,
} from '../../dataplane/kube-proxy/mode-ownership.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import { isMetWithin } from '../../host/wait.ts'
import { changeCluster } from '../cluster-lock.ts'
import { consent } from '../consent.ts'
import type { Cluster, NodeAccess } from '../driver.ts'
import { runOnNode, WITH_BACKEND } from '../node-script.ts'
import { readNode } from '../snapshot.ts'
import { KubeProxyError } from './kube-proxy-pods.ts'

/** The changes made on one node. */
export interface FlushReport {
  node: string
  mode: KernelMode
  /** The removed objects, one line per kind; empty if there were none. */
  removed: string[]
  /** Apparent leftovers that were kept, with the reason. */
  kept: string[]
}

type FlushedCluster = NodeAccess & Pick<Cluster, 'nodes'>

interface NodeReading {
  mode: KernelMode
  plan: FlushPlan
}

/**
 * A new kube-proxy rewrites the shared chains in its first sync; until then they jump to chains
 * that are to be removed.
 */
const firstSyncMs = 45_000
/** A new kube-proxy, whose Pod runs already, answers after this time at the latest. */
const firstAnswerMs = 10_000

/**
 * Removes the leftovers of other modes from every node, and reads the node again to verify it.
 * Every node is read before the first one is changed. Connections that IPVS carried before a switch
 * to iptables end with their virtual server, as with `kube-proxy --cleanup`; new connections always
 * find rules.
 * @throws KubeProxyError when a node's kube-proxy does not report its mode, tools are missing, or
 * something could not be removed
 */
export function flushNat(
  cluster: FlushedCluster,
  { progress }: { progress: Progress },
): Promise<FlushReport[]> {
  const doing = 'removes leftovers of other modes from'
  return changeCluster(cluster, doing, progress, () => flushAlone(cluster, progress))
}

async function flushAlone(cluster: FlushedCluster, progress: Progress): Promise<FlushReport[]> {
  const nodes = await cluster.nodes()
  const readings = await withProgress(progress, `Reading the state of ${nodes.length} nodes`, () =>
    Promise.all(nodes.map((node) => readSettled(cluster, node))),
  )
  if (readings.some(({ plan }) => !isEmptyFlush(plan)))
    await consent(
      cluster,
      'remove the rules, sets, tables and virtual servers that other modes left',
    )
  return Promise.all(
    nodes.map((node, index) => flushNode(cluster, node, readings[index] as NodeReading)),
  )
}

async function flushNode(
  cluster: NodeAccess,
  node: string,
  { mode, plan }: NodeReading,
): Promise<FlushReport> {
  const report = { node, mode, removed: describeFlush(plan), kept: plan.kept }
  if (isEmptyFlush(plan)) return report
  const { stderr } = await runOnNode(cluster, node, flushScript(plan), {
    timeoutMs: 120_000,
    noted: true,
  })
  const after = await readAnswering(cluster, node)
  if (isEmptyFlush(after.plan)) return report
  const left = describeFlush(after.plan).join(', ')
  throw new KubeProxyError(
    `${node} still has ${left} of mode "${plan.left}"${stderr.trim() && ` (${stderr.trim().split('\n').at(-1)})`}: run \`make flush-nat\` again.`,
  )
}

const isSettled = ({ plan }: NodeReading) =>
  !plan.kept.some((line) => / stays: KUBE-\S+ still leads to it/.test(line))

/**
 * Waits for a kube-proxy whose own chains still refer to what must be removed. After the deadline,
 * unreferenced leftovers can still be removed; the report lists those that stay.
 */
async function readSettled(cluster: NodeAccess, node: string): Promise<NodeReading> {
  let reading = await readAnswering(cluster, node)
  await isMetWithin(firstSyncMs, async () => {
    if (!isSettled(reading)) reading = await readAnswering(cluster, node)
    return isSettled(reading)
  })
  return reading
}

/** Waits for a kube-proxy that does not answer yet. Throws KubeProxyError if it never does. */
async function readAnswering(cluster: NodeAccess, node: string): Promise<NodeReading> {
  let reading: NodeReading | undefined
  await isMetWithin(firstAnswerMs, async () => {
    reading = await planNode(cluster, node)
    return reading !== undefined
  })
  if (reading) return reading
  throw new KubeProxyError(
    `kube-proxy on ${node} does not report which mode runs, so what other modes left is not known: see \`make kube-proxy-logs\`.`,
  )
}

/**
 * Plans the removal of leftovers from a node's report; undefined if its kube-proxy does not answer.
 * Throws KubeProxyError if they cannot be determined.
 */
async function planNode(cluster: NodeAccess, node: string): Promise<NodeReading | undefined> {
  const { files, failures } = await readNode(cluster, node, 'essential')
  const mode = files.get('proxyMode')?.trim()
  if (mode === undefined) return undefined
  if (mode !== 'iptables' && mode !== 'ipvs' && mode !== 'nftables')
    throw new KubeProxyError(
      `kube-proxy on ${node} runs mode "${mode}"; only leftovers of iptables, ipvs and nftables are removed.`,
    )
  const { state, faults } = readCapturedNode(files)
  const [fault] = faults
  if (fault)
    throw new KubeProxyError(`${node} could not be read (${fault.file}: ${fault.message}).`)
  const missing = ['ipset', 'ipvsadm'].filter((tool) => failures.get(`${tool}-save`) === 127)
  if (
    missing.length > 0 &&
    mode !== 'ipvs' &&
    state.links.some(({ name }) => name === 'kube-ipvs0')
  )
    throw new KubeProxyError(
      `${node} has no ${missing.join(' and ')} to look for leftovers of IPVS: run \`make tools\` first.`,
    )
  const ipv6 = files.get('ip6tables-save')
  return {
    mode,
    plan: planFlush(mode, state, ipv6 === undefined ? new Map() : parseIptablesSave(ipv6)),
  }
}

/**
 * Rules first, because they reference sets; then virtual servers, their addresses, and finally the
 * sets.
 */
function flushScript({
  ipv4,
  ipv6,
  virtualServers,
  linkAddresses,
  sets,
  nftables,
}: FlushPlan): string {
  const steps: string[] = ['set -e', WITH_BACKEND]
  const feed = (command: string, input: string) => {
    if (input !== '') steps.push(`${command} <<'END-OF-INPUT'\n${input}END-OF-INPUT`)
  }
  feed('with_backend iptables-restore --noflush --wait=30', ipv4.restore)
  feed('with_backend ip6tables-restore --noflush --wait=30', ipv6.restore)
  feed('ipvsadm -R', printVirtualServerDeletions(virtualServers))
  if (linkAddresses) steps.push('ip link delete kube-ipvs0')
  feed('ipset restore', sets.map(({ name }) => `destroy ${name}\n`).join(''))
  for (const table of nftables) steps.push(`nft delete table ${table}`)
  return `${steps.join('\n')}\n`
}
