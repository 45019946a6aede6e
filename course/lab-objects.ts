import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KubernetesObject, V1ObjectMeta, V1Pod, V1ServiceSpec } from '@kubernetes/client-node'
import { parseAllDocuments } from 'yaml'
import { ForeignObjectError, ownSelector } from '../cluster/context/write-guard.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, unlessCode } from '../cluster/kube-client.ts'
import { restartAnnotation } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { KubernetesObjectApi } from '../cluster/kubernetes.ts'
import { projectRoot } from '../host/layout.ts'
import type { Progress } from '../host/progress.ts'
import { DeadlineError, scaledMs, waitFor } from '../host/wait.ts'
import { explainBlockedProbe } from './blocked-probe.ts'
import { type StuckPod, stuckPod } from './stuck-pod.ts'

const namespace = 'default'

/** kubectl's verbs for the objects of the labs: those of the default namespace, and nodes. */
export class LabObjects {
  readonly cluster: Cluster
  readonly client: KubeClient
  readonly progress: Progress
  readonly #objects: KubernetesObjectApi

  constructor(cluster: Cluster, client: KubeClient, progress: Progress) {
    this.cluster = cluster
    this.client = client
    this.progress = progress
    this.#objects = KubernetesObjectApi.makeApiClient(client.config)
  }

  /** `kubectl apply -f` for missing objects; existing ones are not changed. */
  async apply(file: string): Promise<void> {
    await Promise.all(readManifest(file).map((object) => this.#createMissing(object)))
  }

  /**
   * `kubectl create` of an object in the default namespace; an existing one is not changed.
   * Resolves to whether it is new.
   */
  async create(
    kind: string,
    name: string,
    labels: Record<string, string>,
    body: object,
  ): Promise<boolean> {
    const object = { ...typeOf(kind), metadata: { name, namespace, labels }, ...body }
    return this.#createMissing(object)
  }

  /**
   * Creates an object unless it exists; resolves to whether it is new. Of an object that exists, an
   * API server reports first that its node port is allocated (422), and only then that it exists
   * (409).
   */
  async #createMissing(
    object: KubernetesObject & { metadata: { name: string; namespace: string } },
  ): Promise<boolean> {
    try {
      return (await unlessCode(409, this.#objects.create(object))) !== undefined
    } catch (error) {
      // An object of the same name that the labs did not create is not used.
      if (error instanceof ForeignObjectError) throw error
      if (await unlessCode(404, this.#objects.read(object))) return false
      throw error
    }
  }

  /** `kubectl delete -f --ignore-not-found` */
  async remove(file: string): Promise<void> {
    await Promise.all(
      readManifest(file).map(({ kind, metadata }) => this.delete(kind, metadata.name)),
    )
  }

  /**
   * Deletes one object of the default namespace and waits until it is gone. An object of that name
   * that is not ours is kept, with a note.
   */
  async delete(kind: string, name: string): Promise<void> {
    const object = { ...typeOf(kind), metadata: { name, namespace } }
    try {
      if (!(await unlessCode(404, this.#objects.delete(object, undefined, undefined, 0)))) return
    } catch (error) {
      if (!(error instanceof ForeignObjectError)) throw error
      return this.progress.note(error.message)
    }
    await waitFor(
      `${kind} ${name} to be gone`,
      60_000,
      async () => !(await unlessCode(404, this.#objects.read(object))),
    )
  }

  /**
   * Deletes all Services and Deployments with a label and waits until they are gone. In our own
   * clusters this includes objects that a learner created by hand; in other clusters only those
   * with our label.
   */
  async deleteLabelled(label: string): Promise<void> {
    const labelSelector = this.cluster.capabilities.ownedByUser ? `${label},${ownSelector}` : label
    const wanted = { namespace, labelSelector }
    const [services, deployments] = await Promise.all([
      this.client.core.listNamespacedService(wanted),
      this.client.apps.listNamespacedDeployment(wanted),
    ])
    await Promise.all([
      ...services.items.map(({ metadata }) => this.delete('Service', metadata?.name ?? '')),
      ...deployments.items.map(({ metadata }) => this.delete('Deployment', metadata?.name ?? '')),
    ])
  }

  /**
   * `kubectl patch KIND NAME -p …`: a strategic merge patch of an object of the default namespace,
   * or of a node.
   */
  async patch(kind: string, name: string, { metadata = {}, ...body }: ObjectPatch): Promise<void> {
    const place = kind === 'Node' ? { name } : { name, namespace }
    // A patch may contain null, which the types of objects do not know: it deletes a field.
    const object = { ...typeOf(kind), metadata: { ...metadata, ...place }, ...body }
    await this.#objects.patch(object as KubernetesObject)
  }

  /** `kubectl scale deployment NAME --replicas=…`; waits until the Pods are ready */
  async scale(name: string, replicas: number): Promise<void> {
    await this.patch('Deployment', name, { spec: { replicas } })
    await this.rolledOut('Deployment', name)
  }

  /** `kubectl rollout restart deployment/NAME` and `kubectl rollout status` */
  async restart(name: string): Promise<void> {
    const annotations = { [restartAnnotation]: new Date().toISOString() }
    await this.patch('Deployment', name, { spec: { template: { metadata: { annotations } } } })
    await this.rolledOut('Deployment', name)
  }

  /** `kubectl rollout status`: every Pod is updated and ready, and no old one is left. */
  async rolledOut(kind: 'Deployment' | 'DaemonSet', name: string): Promise<void> {
    const { apps } = this.client
    await this.#whenReady(`every Pod of ${name}`, name, async () => {
      if (kind === 'Deployment') {
        const {
          metadata,
          spec,
          status = {},
        } = await apps.readNamespacedDeployment({ namespace, name })
        const counts = [status.replicas, status.updatedReplicas, status.readyReplicas]
        return isObserved(metadata, status) && counts.every((count = 0) => count === spec?.replicas)
      }
      const { metadata, status } = await apps.readNamespacedDaemonSet({ namespace, name })
      const {
        desiredNumberScheduled = 0,
        updatedNumberScheduled = 0,
        numberAvailable = 0,
      } = status ?? {}
      const ready = Math.min(updatedNumberScheduled, numberAvailable)
      return (
        isObserved(metadata, status) &&
        desiredNumberScheduled > 0 &&
        ready >= desiredNumberScheduled
      )
    })
  }

  /** `kubectl get pods -l app=…`, without those that terminate, which can take 30 s. */
  async pods(app: string): Promise<V1Pod[]> {
    const { items } = await this.client.core.listNamespacedPod({
      namespace,
      labelSelector: `app=${app}`,
    })
    return items.filter(({ metadata }) => !metadata?.deletionTimestamp)
  }

  /** `kubectl get service NAME` */
  async service(name: string): Promise<V1ServiceSpec> {
    return (await this.client.core.readNamespacedService({ namespace, name })).spec ?? {}
  }

  /** `kubectl wait --for=condition=Ready pod/NAME` */
  async podReady(name: string): Promise<void> {
    await this.#whenReady(`Pod ${name}`, name, async () =>
      isPodReady(await this.client.core.readNamespacedPod({ namespace, name })),
    )
  }

  /**
   * Waits for Pods. Throws Refusal after a few seconds if a rule stops their probes, and
   * DeadlineError after two minutes, with what one of them waits for, which is told before.
   * @param name of the Pod, or of the workload that makes them
   */
  async #whenReady(what: string, name: string, areReady: () => Promise<boolean>): Promise<void> {
    let explainedAt = Date.now()
    let stuck: StuckPod | undefined
    const wait = waitFor(`${what} to be ready`, 120_000, async () => {
      if (await areReady()) return true
      if (Date.now() - explainedAt > scaledMs(UNREADY_MS)) {
        const before = stuck?.reason
        stuck = stuckPod(await this.#podsOf(name))
        if (stuck && before === undefined) this.progress.note(sentenceOf(stuck))
        await explainBlockedProbe(this.cluster, this.client)
        explainedAt = Date.now()
      }
      return false
    })
    await wait.catch((error) => {
      if (!stuck || !(error instanceof DeadlineError)) throw error
      const next = `kubectl describe pod ${stuck.name} shows its events.`
      throw new DeadlineError(`${error.message} ${sentenceOf(stuck)} ${next}`)
    })
  }

  /** A Pod and those of a workload, whose names begin with the workload's. */
  async #podsOf(name: string): Promise<V1Pod[]> {
    const { items } = await this.client.core.listNamespacedPod({ namespace })
    return items.filter(({ metadata }) => `${metadata?.name}-`.startsWith(`${name}-`))
  }
}

const sentenceOf = ({ name, reason, message }: StuckPod) =>
  `Pod ${name} does not start: ${reason}${message === '' ? '' : ` (${message})`}.`

/**
 * The time after which Pods that are not ready are examined, and examined again: an image in the
 * node starts within it.
 */
const UNREADY_MS = 5000

const typeOf = (kind: string) => ({
  apiVersion: kind === 'Deployment' || kind === 'DaemonSet' ? 'apps/v1' : 'v1',
  kind,
})

interface ObjectPatch {
  metadata?: { labels?: Record<string, string | null>; annotations?: Record<string, string> }
  spec?: object
  data?: Record<string, string>
}

/** True once the status is that of the latest spec. */
const isObserved = (metadata?: V1ObjectMeta, status?: { observedGeneration?: number }): boolean =>
  (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0)

/** True for a Pod whose containers pass their readiness probes. */
export const isPodReady = ({ status }: V1Pod): boolean =>
  status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false

interface ManifestObject {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string }
}

function readManifest(file: string): ManifestObject[] {
  return parseAllDocuments(readFileSync(join(projectRoot, file), 'utf8')).map((document) => {
    const object: ManifestObject = document.toJS()
    return { ...object, metadata: { ...object.metadata, namespace } }
  })
}
