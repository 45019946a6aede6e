import { takeObjects } from '../../cluster/snapshot.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { waitFor } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import type { Scene } from './scene.ts'
import { SHOP_OBJECTS } from './shop-objects.ts'

/** Deploys shop and customer and puts every node into a mode, without leftovers of another one. Resolves to the scene. */
export async function deployShop(bench: LabBench, mode: SwitchedMode): Promise<Scene> {
  const { progress } = bench
  await bench.apply(SHOP_OBJECTS.manifest)
  progress.start('Opening the shop')
  try {
    await Promise.all([bench.podReady(SHOP_OBJECTS.customer.name), shopReady(bench)])
    progress.end(true)
  } catch (error) {
    progress.end(false)
    throw error
  }
  await bench.startIn(mode)
  return readScene(bench)
}

async function shopReady({ client: { apps } }: LabBench): Promise<void> {
  await waitFor('the shop to open', 120_000, async () => {
    const { spec, status } = await apps.readNamespacedDeployment({
      namespace: SHOP_OBJECTS.namespace,
      name: SHOP_OBJECTS.shop,
    })
    return status?.readyReplicas === spec?.replicas && status?.replicas === spec?.replicas
  })
}

async function readScene({ cluster, client }: LabBench): Promise<Scene> {
  const { namespace } = SHOP_OBJECTS
  const [nodes, pod, service, nodePort, capture] = await Promise.all([
    cluster.nodes(),
    client.core.readNamespacedPod(SHOP_OBJECTS.customer),
    client.core.readNamespacedService({ namespace, name: SHOP_OBJECTS.shop }),
    client.core.readNamespacedService({ namespace, name: SHOP_OBJECTS.nodePortService }),
    takeObjects(cluster, client),
  ])
  const { objects } = new Snapshot(capture)
  return {
    nodes,
    nodeAddresses: nodes.map((node) => objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? node),
    node: pod.spec?.nodeName ?? nodes[0] ?? '',
    customer: pod.status?.podIP ?? '',
    shop: service.spec?.clusterIP ?? '',
    nodePort: nodePort.spec?.ports?.[0]?.nodePort ?? 0,
    facts: {},
  }
}
