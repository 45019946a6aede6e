import type { V1Deployment, V1Service } from '@kubernetes/client-node'
import { type KubeClient, unlessCode } from '../cluster/kube-client.ts'
import { STANDARD, type Variant } from '../grading/variant.ts'
import { type Progress, withProgress } from '../host/progress.ts'
import { waitFor } from '../host/wait.ts'

const namespace = 'default'
const labels = { app: 'web' }

/** The labs need Pods on two nodes, but without this constraint the scheduler may put all Pods on one. */
const spread = {
  maxSkew: 1,
  topologyKey: 'kubernetes.io/hostname',
  whenUnsatisfiable: 'ScheduleAnyway',
  labelSelector: { matchLabels: labels },
}

/** `make up` loads the image into the nodes, so no node contacts the registry. */
const nginx = { name: 'nginx', image: 'nginx', imagePullPolicy: 'IfNotPresent' }

/**
 * The Deployment of `kubectl create deploy web --image=nginx --replicas=2`, with the variant's name, spread over the nodes.
 */
const deployment = ({ name, replicas }: Variant): V1Deployment => ({
  metadata: { name, labels },
  spec: {
    replicas,
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: { topologySpreadConstraints: [spread], containers: [nginx] },
    },
  },
})

/** The Service of `kubectl expose deploy web --port 80`, with the variant's name. */
const service = ({ name, port }: Variant): V1Service => ({
  metadata: { name, labels },
  spec: { selector: labels, ports: [{ port, targetPort: 80, protocol: 'TCP' }] },
})

/**
 * Deploys `web` by the name of its variant, waits until every replica is ready, and returns a line for each Pod and one for
 * the Service. Existing objects are left unchanged. Throws DeadlineError if the Pods do not become ready.
 */
export async function deployWeb(
  client: KubeClient,
  progress: Progress,
  variant: Variant = STANDARD,
): Promise<string[]> {
  const { apps, core } = client
  const { name } = variant
  const created = [
    await unlessCode(409, apps.createNamespacedDeployment({ namespace, body: deployment(variant) })),
    await unlessCode(409, core.createNamespacedService({ namespace, body: service(variant) })),
  ]
  if (created.includes(undefined)) progress.note(`Part of ${name} already existed and was left unchanged.`)
  await everyReplica(client, name, progress)
  if (await spreadPods(client, progress)) await everyReplica(client, name, progress)
  const { spec } = await core.readNamespacedService({ namespace, name })
  const lines = (await webPods(client)).map(
    ({ metadata, spec: pod, status }) => `${metadata?.name}  ${status?.podIP}  on ${pod?.nodeName}`,
  )
  return [...lines, `Service ${name}: ${spec?.clusterIP}:${spec?.ports?.[0]?.port}`]
}

const everyReplica = (client: KubeClient, name: string, progress: Progress) =>
  withProgress(progress, `Waiting for every replica of ${name}`, () =>
    waitFor(`every replica of ${name} to be ready`, 120_000, () => isRolledOut(client, name)),
  )

/** True if every Pod of a Deployment is updated and ready, and no old one is left. */
export async function isRolledOut({ apps }: KubeClient, name: string): Promise<boolean> {
  const { metadata, spec, status } = await apps.readNamespacedDeployment({ namespace, name })
  const pods = [status?.replicas, status?.updatedReplicas, status?.readyReplicas].map((count) => count ?? 0)
  const isObserved = (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0)
  return isObserved && pods.every((count) => count === spec?.replicas)
}

async function webPods({ core }: KubeClient) {
  const { items } = await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })
  return items.filter(({ metadata }) => !metadata?.deletionTimestamp)
}

/**
 * If all Pods are on one node, for example after scaling down, deletes one, so that its replacement is placed on another
 * node.
 */
async function spreadPods(client: KubeClient, progress: Progress): Promise<boolean> {
  const pods = await webPods(client)
  const nodes = new Set(pods.map(({ spec }) => spec?.nodeName))
  const pod = pods.at(-1)?.metadata?.name
  if (pods.length < 2 || nodes.size > 1 || pod === undefined) return false
  progress.note(
    `Every Pod was on ${[...nodes][0]}: ${pod} was deleted, so that its replacement is placed on another node.`,
  )
  await client.core.deleteNamespacedPod({ namespace, name: pod })
  await waitFor(`Pod ${pod} to be gone`, 60_000, async () => {
    const { items } = await client.core.listNamespacedPod({ namespace, labelSelector: 'app=web' })
    return items.every(({ metadata }) => metadata?.name !== pod)
  })
  return true
}
