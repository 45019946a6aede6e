import { ApiException, type V1Deployment, type V1Service } from '@kubernetes/client-node'
import type { Progress } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { waitFor } from '../cluster/wait.ts'

const namespace = 'default'
const labels = { app: 'web' }

/** What `kubectl create deploy web --image=nginx --replicas=2` makes. */
const deployment: V1Deployment = {
  metadata: { name: 'web', labels },
  spec: {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: 'nginx', image: 'nginx' }] } },
  },
}

/** What `kubectl expose deploy web --port 80` makes. */
const service: V1Service = {
  metadata: { name: 'web', labels },
  spec: { selector: labels, ports: [{ port: 80, targetPort: 80, protocol: 'TCP' }] },
}

/** True when the object is new; one of that name that stands already is left as it is. */
async function create(request: Promise<unknown>): Promise<boolean> {
  try {
    await request
    return true
  } catch (error) {
    if (error instanceof ApiException && error.code === 409) return false
    throw error
  }
}

/**
 * Deploys `web`, waits for every replica, and returns a line for each Pod and one for the Service. What stands already stays as
 * it is. Throws DeadlineError when the Pods don't get ready.
 */
export async function deployWeb({ apps, core }: KubeClient, progress: Progress): Promise<string[]> {
  const fresh = [
    await create(apps.createNamespacedDeployment({ namespace, body: deployment })),
    await create(core.createNamespacedService({ namespace, body: service })),
  ]
  if (fresh.includes(false)) progress.note('Part of web stood already and was left as it is.')
  progress.start('Waiting for every replica of web')
  try {
    await waitFor('every replica of web to be ready', 120_000, async () => {
      const { spec, status } = await apps.readNamespacedDeployment({ namespace, name: 'web' })
      return status?.readyReplicas === spec?.replicas
    })
  } catch (error) {
    progress.end(false)
    throw error
  }
  progress.end(true)
  const { spec } = await core.readNamespacedService({ namespace, name: 'web' })
  const pods = await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })
  const lines = pods.items.map(
    ({ metadata, spec: pod, status }) => `${metadata?.name}  ${status?.podIP}  on ${pod?.nodeName}`,
  )
  return [...lines, `Service web: ${spec?.clusterIP}:${spec?.ports?.[0]?.port}`]
}
