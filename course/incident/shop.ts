import type { V1ServiceSpec } from '@kubernetes/client-node'
import { ownSelector } from '../../cluster/context/write-guard.ts'
import { unlessCode } from '../../cluster/kube-client.ts'
import { readConfigConf } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { takeObjects } from '../../cluster/snapshot.ts'
import { readMode } from '../../dataplane/kube-proxy/config-conf.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { nodeAddressOf, Snapshot } from '../../grading/snapshot.ts'
import { withProgress } from '../../host/progress.ts'
import { waitFor } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import { programmed } from '../settled.ts'

/** The number of the incident lab. */
export const INCIDENT_LAB = 8

/** The objects of the incidents, in labs/08-incidents/manifests/shop.yaml. */
export const SHOP_OBJECTS = {
  manifest: 'labs/08-incidents/manifests/shop.yaml',
  namespace: 'default',
  shop: 'shop',
  nodePortService: 'shop-np',
  customer: { namespace: 'default', name: 'customer' },
} as const

/** The label of all objects of the incidents, also as a selector. */
export const INCIDENT_LABELS = { lab: 'incidents' }
export const INCIDENT_SELECTOR = 'lab=incidents'

/**
 * The environment of an incident: determined when it begins, for its report, its probes and its
 * fixes.
 */
export interface IncidentEnvironment {
  /** Names of the nodes, control plane first. */
  nodes: string[]
  nodeAddresses: string[]
  node: string
  customer: string
  shop: string
  nodePort: number
  /** Facts that the incident stored. */
  facts: Record<string, string>
}

/** A node's address. Throws Error for a node that the environment does not have. */
export function addressOf({ nodes, nodeAddresses }: IncidentEnvironment, node: string): string {
  const address = nodeAddresses[nodes.indexOf(node)]
  if (address === undefined) throw new Error(`the incident has no node "${node}"`)
  return address
}

/** A fact that the incident stored when it began. Throws Error if it is missing. */
export function incidentFact({ facts }: IncidentEnvironment, name: string): string {
  const fact = facts[name]
  if (fact === undefined) throw new Error(`the incident did not store its "${name}"`)
  return fact
}

/** Labels of what lab 10 calls shop: the incidents' Service would select its Pods. */
const NAMESAKES = `app=shop,lab!=incidents,${ownSelector}`

/**
 * Removes a lab's own Service and Deployment shop, and ends their Pods without their preStop hooks.
 */
async function removeNamesakes(bench: LabBench): Promise<void> {
  await bench.deleteLabelled(NAMESAKES)
  const { core } = bench.client
  const { namespace } = SHOP_OBJECTS
  await waitFor('the end of the Pods of another shop', 60_000, async () => {
    const { items } = await core.listNamespacedPod({ namespace, labelSelector: NAMESAKES })
    for (const { metadata } of items) {
      if (!metadata?.deletionTimestamp) continue
      const pod = { namespace, name: metadata.name ?? '', gracePeriodSeconds: 1 }
      await unlessCode(404, core.deleteNamespacedPod(pod))
    }
    return items.length === 0
  })
}

/**
 * Deploys shop and customer and puts every node into a mode, without leftovers of another one; with
 * `keepsMode` only if another mode is configured, so that a lab's scheduler and version stay.
 * Resolves to the environment.
 */
export async function deployShop(
  bench: LabBench,
  mode: SwitchedMode,
  { keepsMode = false } = {},
): Promise<IncidentEnvironment> {
  await removeNamesakes(bench)
  await bench.apply(SHOP_OBJECTS.manifest)
  await withProgress(bench.progress, 'Opening the shop', () =>
    Promise.all([
      bench.podReady(SHOP_OBJECTS.customer.name),
      bench.rolledOut('Deployment', SHOP_OBJECTS.shop),
    ]),
  )
  const configured = keepsMode
    ? readMode((await readConfigConf(bench.client)).text).mode || 'iptables'
    : undefined
  if (configured === mode) await programmed(bench)
  else await bench.startIn(mode)
  return readEnvironment(bench)
}

async function readEnvironment({ cluster, client }: LabBench): Promise<IncidentEnvironment> {
  const { namespace, customer, shop, nodePortService } = SHOP_OBJECTS
  const [nodes, capture] = await Promise.all([cluster.nodes(), takeObjects(cluster, client)])
  const snapshot = new Snapshot(capture)
  const pod = snapshot.find('Pod', namespace, customer.name)
  const serviceSpec = (name: string) =>
    snapshot.find('Service', namespace, name)?.spec as V1ServiceSpec | undefined
  return {
    nodes,
    nodeAddresses: nodes.map((node) => nodeAddressOf(snapshot, node)),
    node: pod?.spec?.nodeName ?? nodes[0] ?? '',
    customer: pod?.status?.podIP ?? '',
    shop: serviceSpec(shop)?.clusterIP ?? '',
    nodePort: serviceSpec(nodePortService)?.ports?.[0]?.nodePort ?? 0,
    facts: {},
  }
}
