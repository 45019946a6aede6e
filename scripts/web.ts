import { ApiException, type V1Deployment, type V1Service } from '@kubernetes/client-node'
import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { selectCluster } from '../cluster/select.ts'
import { waitFor } from '../cluster/wait.ts'
import { main } from './main.ts'
import { createProgress } from './progress.ts'

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

async function deployWeb(cluster: Cluster): Promise<void> {
  const progress = createProgress()
  const { apps, core } = await kubeClient(cluster)
  const fresh = [
    await create(apps.createNamespacedDeployment({ namespace, body: deployment })),
    await create(core.createNamespacedService({ namespace, body: service })),
  ]
  if (fresh.includes(false)) progress.note('Part of web stood already and was left as it is.')
  progress.start('Waiting for every replica of web')
  await waitFor('every replica of web to be ready', 120_000, async () => {
    const { spec, status } = await apps.readNamespacedDeployment({ namespace, name: 'web' })
    return status?.readyReplicas === spec?.replicas
  })
  progress.end(true)
  const { spec } = await core.readNamespacedService({ namespace, name: 'web' })
  const pods = await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })
  for (const { metadata, spec: pod, status } of pods.items)
    console.log(`${metadata?.name}  ${status?.podIP}  on ${pod?.nodeName}`)
  console.log(`Service web: ${spec?.clusterIP}:${spec?.ports?.[0]?.port}`)
}

await main(async () => deployWeb(await selectCluster()))
