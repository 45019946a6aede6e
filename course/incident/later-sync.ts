import { listKubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { runOnNode, WITH_BACKEND } from '../../cluster/node-script.ts'
import { isMetWithin } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import { INCIDENT_LABELS } from './shop.ts'

const PROBE_SERVICE = 'sync-witness'
/** The duration of a kube-proxy's first sync on a busy machine. */
const FOLLOWS_MS = 30_000
/**
 * How long to wait, before each reading of the nodes, for the kube-proxies to report that they have
 * synced.
 */
const SYNC_MS = 2000

/**
 * Resolves when every running kube-proxy has completed a sync that began after this call: a Service
 * without endpoints is created, observed on each node, and deleted again. In iptables mode a filter
 * rule rejects its address, in IPVS mode kube-ipvs0 has it. Pending writes of a first or repeated
 * sync are done by then. A kube-proxy that has stopped or does not sync in time is ignored, because
 * it repairs nothing either.
 */
export async function laterSync(bench: LabBench): Promise<void> {
  await bench.delete('Service', PROBE_SERVICE)
  await bench.create('Service', PROBE_SERVICE, INCIDENT_LABELS, { spec: { ports: [{ port: 80 }] } })
  const { clusterIP: address = '' } = await bench.service(PROBE_SERVICE)
  let following: string[] = []
  try {
    following = await nodesThat('show', address, bench, await running(bench))
  } finally {
    await bench.delete('Service', PROBE_SERVICE)
  }
  await nodesThat('hide', address, bench, following)
}

async function running({ client }: LabBench): Promise<string[]> {
  const pods = (await listKubeProxyPods(client)).filter(
    ({ startedAt, trouble }) => startedAt && !trouble,
  )
  return pods.map(({ node }) => node)
}

const lookFor = `${WITH_BACKEND}
{ with_backend iptables-save -t filter; ip -4 addr show; } | grep -qwF -- "$1" && echo show || echo hide`

/** Those of the nodes that program or remove an address in time, while their kube-proxy runs. */
async function nodesThat(
  wanted: 'show' | 'hide',
  address: string,
  bench: LabBench,
  nodes: readonly string[],
): Promise<string[]> {
  const done = new Set<string>()
  await isMetWithin(FOLLOWS_MS, async () => {
    await bench.cluster.synced(SYNC_MS)
    const awaited = (await running(bench)).filter((node) => nodes.includes(node) && !done.has(node))
    const looks = awaited.map(async (node) => {
      const { stdout } = await runOnNode(bench.cluster, node, lookFor, { args: [address] })
      if (stdout.trim() === wanted) done.add(node)
    })
    await Promise.all(looks)
    return awaited.every((node) => done.has(node))
  })
  return [...done]
}
