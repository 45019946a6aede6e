import type { V1DeploymentSpec, V1ServiceSpec } from '@kubernetes/client-node'
import type { Variant } from '../grading/variant.ts'
import { withProgress } from '../host/progress.ts'
import type { LabBench } from './lab-bench.ts'

const labels = { app: 'web' }

/**
 * The labs need Pods on two nodes, but without this constraint the scheduler may put all Pods on
 * one.
 */
const spread = {
  maxSkew: 1,
  topologyKey: 'kubernetes.io/hostname',
  whenUnsatisfiable: 'ScheduleAnyway',
  labelSelector: { matchLabels: labels },
}

/** `make up` loads the image into the nodes, so no node contacts the registry. */
const nginx = { name: 'nginx', image: 'nginx', imagePullPolicy: 'IfNotPresent' }

/**
 * The Deployment of `kubectl create deploy web --image=nginx --replicas=2`, spread over the nodes.
 */
const deployment = ({ replicas }: Variant): V1DeploymentSpec => ({
  replicas,
  selector: { matchLabels: labels },
  template: {
    metadata: { labels },
    spec: { topologySpreadConstraints: [spread], containers: [nginx] },
  },
})

/** The Service of `kubectl expose deploy web --port 80`. */
const service = ({ port }: Variant): V1ServiceSpec => ({
  selector: labels,
  ports: [{ port, targetPort: 80, protocol: 'TCP' }],
})

/**
 * `make web`: deploys `web` by the name of its variant, waits until every replica is ready, and
 * returns a line for each Pod and one for the Service. Existing objects are left unchanged. Throws
 * DeadlineError if the Pods do not become ready.
 */
export async function deployWeb(bench: LabBench): Promise<string[]> {
  const { progress, variant } = bench
  const { name } = variant
  const created = [
    await bench.create('Deployment', name, labels, { spec: deployment(variant) }),
    await bench.create('Service', name, labels, { spec: service(variant) }),
  ]
  if (created.includes(false))
    progress.note(`Part of ${name} already existed and was left unchanged.`)
  const everyReplica = () =>
    withProgress(progress, `Waiting for every replica of ${name}`, () =>
      bench.rolledOut('Deployment', name),
    )
  await everyReplica()
  if (await spreadPods(bench)) await everyReplica()
  const { clusterIP, ports } = await bench.service(name)
  const lines = (await bench.pods(labels.app)).map(
    ({ metadata, spec, status }) => `${metadata?.name}  ${status?.podIP}  on ${spec?.nodeName}`,
  )
  return [...lines, `Service ${name}: ${clusterIP}:${ports?.[0]?.port}`]
}

/**
 * If all Pods are on one node, for example after scaling down, deletes one, so that its replacement
 * is placed on another node.
 */
async function spreadPods(bench: LabBench): Promise<boolean> {
  const pods = await bench.pods(labels.app)
  const nodes = new Set(pods.map(({ spec }) => spec?.nodeName))
  const pod = pods.at(-1)?.metadata?.name
  if (pods.length < 2 || nodes.size > 1 || pod === undefined) return false
  bench.progress.note(
    `Every Pod was on ${[...nodes][0]}: ${pod} was deleted, so that its replacement is placed on another node.`,
  )
  await bench.delete('Pod', pod)
  return true
}
