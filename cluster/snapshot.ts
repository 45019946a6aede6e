import type { V1Pod } from '@kubernetes/client-node'
import { reasonOf } from '../host/main.ts'
import type { Capture, NodeFiles } from './capture-folder.ts'
import { type Cluster, ClusterNotReady, type NodeAccess, requireUp } from './driver.ts'
import { type KubeClient, listObjects } from './kube-client.ts'
import { kubeProxyPods, readLog } from './kube-proxy/kube-proxy-pods.ts'
import { nodeReportRequest, type ReportDepth } from './node-report.ts'
import { runOnNode } from './node-script.ts'

/** Only the beginning of a kube-proxy log is read: it names the proxier. */
const LOG_BYTES = 64 * 1024

/**
 * Reads the whole cluster once: API objects, and one exec per node. A node that can't be read is
 * kept with its `trouble`; tools that a node lacks leave no file.
 * @throws Refusal when the API server can't be read.
 */
export async function takeCapture(
  cluster: Cluster,
  client: KubeClient,
  depth: ReportDepth = 'essential',
): Promise<Capture> {
  const names = await cluster.nodes().catch(troubleOf(cluster))
  const reading = Promise.all(names.map((name) => tryReadNode(cluster, name, depth)))
  const { objects, takenAt } = await takeObjects(cluster, client)
  const nodes = await reading
  await addKubeProxyLogs(client, objects.items, nodes)
  return { objects, nodes, takenAt }
}

/** The API objects of a capture, without nodes. Throws Refusal as takeCapture does. */
export async function takeObjects(
  cluster: Cluster,
  client: KubeClient,
): Promise<Capture & { takenAt: number }> {
  const takenAt = Date.now()
  const items = await allObjects(client).catch(troubleOf(cluster))
  return { objects: { apiVersion: 'v1', kind: 'List', items }, nodes: [], takenAt }
}

const troubleOf = (cluster: Cluster) => async (error: unknown) => {
  await requireUp(cluster)
  throw new ClusterNotReady(
    `The cluster "${cluster.name}" does not respond (${reasonOf(error)}): run \`make up\`.`,
  )
}

/**
 * The state of one node, read with one exec, and the exit code of each command that failed (127:
 * not installed). Rejects when the node can't be reached.
 */
export async function readNode(
  cluster: NodeAccess,
  name: string,
  depth: ReportDepth = 'essential',
): Promise<NodeFiles & { failures: Map<string, number> }> {
  const { script, read } = nodeReportRequest(depth)
  const { stdout } = await runOnNode(cluster, name, script, { timeoutMs: 30_000, readOnly: true })
  return { name, ...read(stdout) }
}

async function tryReadNode(cluster: Cluster, name: string, depth: ReportDepth): Promise<NodeFiles> {
  try {
    const { files } = await readNode(cluster, name, depth)
    return { name, files }
  } catch (error) {
    return {
      name,
      files: new Map(),
      trouble: `node ${name} could not be read (${reasonOf(error)})`,
    }
  }
}

/**
 * Every object that determines kube-proxy's rules, or that a lab stores. EndpointSlices are in
 * v1beta1 before Kubernetes 1.21.
 */
async function allObjects(client: KubeClient): Promise<unknown[]> {
  const discovery = '/apis/discovery.k8s.io'
  const lists = await Promise.all([
    listObjects(client, '/api/v1/nodes'),
    listObjects(client, '/api/v1/services'),
    listObjects(client, `${discovery}/v1/endpointslices`, `${discovery}/v1beta1/endpointslices`),
    listObjects(client, '/api/v1/pods'),
    listObjects(
      client,
      '/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dkube-proxy',
    ),
    listObjects(client, '/api/v1/namespaces/default/configmaps'),
    listObjects(client, '/apis/apps/v1/namespaces/kube-system/daemonsets'),
  ])
  return lists.flat()
}

/**
 * kube-proxy's log per node, by the API. A Pod without a log (not started yet) adds none; a node
 * that does not respond gets `trouble`.
 */
async function addKubeProxyLogs(
  client: KubeClient,
  items: unknown[],
  nodes: NodeFiles[],
): Promise<void> {
  await Promise.all(
    kubeProxyPods(items as V1Pod[]).map(async ({ metadata, spec }) => {
      const entry = nodes.find(({ name }) => name === spec?.nodeName)
      if (!entry || metadata?.name === undefined) return
      try {
        const log = await readLog(client, metadata.name, { limitBytes: LOG_BYTES })
        if (log) entry.files.set('kube-proxy.log', log)
      } catch (error) {
        entry.trouble ??= `the log of kube-proxy on node ${entry.name} could not be read (${reasonOf(error)})`
      }
    }),
  )
}
