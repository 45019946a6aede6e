import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KubernetesObject, V1ObjectMeta, V1Pod, V1ServiceSpec } from '@kubernetes/client-node'
import { parseAllDocuments } from 'yaml'
import { consent } from '../cluster/consent.ts'
import { ForeignObjectError, ownSelector } from '../cluster/context/write-guard.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, kubeClient, unlessCode } from '../cluster/kube-client.ts'
import { flushNat } from '../cluster/kube-proxy/flush-nat.ts'
import {
  kubeProxy,
  listKubeProxyPods,
  readConfigConf,
  readDaemonSet,
  restartAnnotation,
} from '../cluster/kube-proxy/kube-proxy-pods.ts'
import type { RunnableMode } from '../cluster/kube-proxy/proof.ts'
import { isForeignImage, OWN } from '../cluster/kube-proxy/rollout.ts'
import { switchMode } from '../cluster/kube-proxy/switch-mode.ts'
import { KubernetesObjectApi } from '../cluster/kubernetes.ts'
import { PATH } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { installToolsEverywhere } from '../cluster/node-tools.ts'
import { readMode } from '../dataplane/kube-proxy/config-conf.ts'
import type { SwitchedMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { LiveCluster } from '../grading/live-cluster.ts'
import { keepAnswer } from '../grading/question.ts'
import { STANDARD, type Variant } from '../grading/variant.ts'
import { projectRoot } from '../host/layout.ts'
import type { Progress } from '../host/progress.ts'
import { timeoutScale, waitFor } from '../host/wait.ts'
import { explainBlockedProbe } from './blocked-probe.ts'
import { ownVariant, putClassWord } from './cluster-settings.ts'
import { holdsOnly } from './settled.ts'

/** The learner's commands as functions on one cluster, for reference solutions. */
export class LabBench {
  readonly cluster: Cluster
  readonly client: KubeClient
  readonly progress: Progress
  /** The name and size of the labs' Service on this cluster. */
  readonly variant: Variant
  readonly #objects: KubernetesObjectApi

  constructor(cluster: Cluster, client: KubeClient, progress: Progress, variant = STANDARD) {
    this.cluster = cluster
    this.client = client
    this.progress = progress
    this.variant = variant
    this.#objects = KubernetesObjectApi.makeApiClient(client.config)
  }

  /** `purpose` describes the command, as in "reset lab 1"; omit it for a command that only reads. */
  static async open(cluster: Cluster, progress: Progress, purpose?: string): Promise<LabBench> {
    if (purpose !== undefined) await consent(cluster, labChange(purpose))
    const client = await kubeClient(cluster)
    const [variant] = await Promise.all([ownVariant(client), putClassWord(cluster, client, progress)])
    return new LabBench(cluster, client, progress, variant)
  }

  /** `make ipvs` and `make iptables`, with SCHEDULER= and KUBE_PROXY_VERSION=. */
  async mode(
    mode: RunnableMode,
    options: { scheduler?: string; version?: string; force?: boolean } = {},
  ): Promise<void> {
    await switchMode(this.cluster, mode, { ...options, progress: this.progress })
  }

  /**
   * Brings the cluster into a lab's starting state: this mode with its default scheduler, in the cluster's own version, without
   * leftovers or damage; fast if this is already the state.
   */
  async startIn(mode: SwitchedMode): Promise<void> {
    const configured = readMode((await readConfigConf(this.client)).text)
    const isUsual = configured.scheduler === '' || configured.scheduler === 'rr'
    const isConfigured = (configured.mode || 'iptables') === mode && isUsual
    const isForeign = isForeignImage(await readDaemonSet(this.client))
    if (isConfigured && !isForeign && (await holdsOnly(mode, this, this.progress))) return
    await this.mode(mode, { ...(!isUsual && { scheduler: 'rr' }), version: OWN })
    await this.flush()
    // Manually altered rules survive many syncs of iptables mode; a restarted kube-proxy writes all rules.
    if (!(await holdsOnly(mode, this, this.progress))) await this.mode(mode, { force: true })
  }

  /** `make tools` */
  async tools(): Promise<void> {
    for (const line of await installToolsEverywhere(this.cluster)) this.progress.note(line)
  }

  /** `make flush-nat` */
  async flush(): Promise<void> {
    const reports = await flushNat(this.cluster, { progress: this.progress })
    for (const { node, removed } of reports)
      this.progress.note(removed.length > 0 ? `${node}: removed ${removed.join(', ')}` : `${node}: no leftovers`)
  }

  /** `kubectl apply -f` for missing objects; existing ones are not changed. */
  async apply(file: string): Promise<void> {
    await Promise.all(readManifest(file).map((object) => unlessCode(409, this.#objects.create(object))))
  }

  /** `kubectl create` of an object in the default namespace; an existing one is not changed. */
  async create(kind: string, name: string, labels: Record<string, string>, body: object): Promise<void> {
    const object = { ...typeOf(kind), metadata: { name, namespace, labels }, ...body }
    await unlessCode(409, this.#objects.create(object))
  }

  /** `kubectl delete -f --ignore-not-found` */
  async remove(file: string): Promise<void> {
    await Promise.all(readManifest(file).map(({ kind, metadata }) => this.delete(kind, metadata.name)))
  }

  /**
   * Deletes one object of the default namespace and waits until it is gone. An object of that name that is not ours is kept,
   * with a note.
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
   * Deletes all Services and Deployments with a label and waits until they are gone. In our own clusters this includes
   * objects that a learner created by hand; in other clusters only those with our label.
   */
  async deleteLabelled(label: string): Promise<void> {
    const labelSelector = this.cluster.driver === 'context' ? `${label},${ownSelector}` : label
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

  /** `kubectl patch KIND NAME -p …`: a strategic merge patch of an object of the default namespace, or of a node. */
  async patch(kind: string, name: string, { metadata = {}, ...body }: Patch): Promise<void> {
    const place = kind === 'Node' ? { name } : { name, namespace }
    // A patch may contain null, which the types of objects do not know: it deletes a field.
    const object = { ...typeOf(kind), metadata: { ...metadata, ...place }, ...body }
    await this.#objects.patch(object as KubernetesObject)
  }

  /** `kubectl -n kube-system edit configmap kube-proxy`; restarts nothing. */
  async editKubeProxyConfig(edit: (text: string) => string): Promise<void> {
    const { namespace, name } = kubeProxy
    const before = (await readConfigConf(this.client)).text
    const after = edit(before)
    if (after === before) return
    const map = { ...typeOf('ConfigMap'), metadata: { namespace, name }, data: { 'config.conf': after } }
    await this.#objects.patch(map)
  }

  /** `make answer Q=step A=text` */
  async answer(lab: number, step: string, text: string): Promise<void> {
    await keepAnswer(this.client, lab, step, text)
  }

  /** `kubectl expose deployment web --name web-np --type NodePort --port 80`, by the names of the variant */
  async expose(suffix: 'np' | 'lb', type: 'NodePort' | 'LoadBalancer'): Promise<void> {
    const { name, port } = this.variant
    const selector = { app: 'web' }
    const spec = { type, selector, ports: [{ port, targetPort: 80 }] }
    await this.create('Service', `${name}-${suffix}`, selector, { spec })
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
    await this.#whenReady(`every Pod of ${name}`, async () => {
      if (kind === 'Deployment') {
        const { metadata, spec, status = {} } = await apps.readNamespacedDeployment({ namespace, name })
        const counts = [status.replicas, status.updatedReplicas, status.readyReplicas]
        return isObserved(metadata, status) && counts.every((count = 0) => count === spec?.replicas)
      }
      const { metadata, status } = await apps.readNamespacedDaemonSet({ namespace, name })
      const { desiredNumberScheduled = 0, updatedNumberScheduled = 0, numberAvailable = 0 } = status ?? {}
      const ready = Math.min(updatedNumberScheduled, numberAvailable)
      return isObserved(metadata, status) && desiredNumberScheduled > 0 && ready >= desiredNumberScheduled
    })
  }

  /** `make exec NODE=… CMD='…'`. Returns its output; throws Error with its standard error if it fails. */
  async onNode(node: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await runOnNode(this.cluster, node, `${PATH}\n${script}`, { noted: true })
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} on ${node}: ${stderr.trim()}`)
    return stdout
  }

  async onEveryNode(script: string): Promise<void> {
    await Promise.all((await this.cluster.nodes()).map((node) => this.onNode(node, script)))
  }

  /** `kubectl exec NAME -- …`. Throws Error with the command's output when it failed. */
  async inPod(name: string, script: string): Promise<string> {
    const live = new LiveCluster(this.cluster, this.client, { keepMoments: false })
    const { exitCode, stdout, stderr } = await live.inPod({ namespace, name }, script)
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} in Pod ${name}: ${stderr.trim()}`)
    return stdout
  }

  /** `kubectl get pods -l app=…`, without those that terminate, which can take 30 s. */
  async pods(app: string): Promise<V1Pod[]> {
    const { items } = await this.client.core.listNamespacedPod({ namespace, labelSelector: `app=${app}` })
    return items.filter(({ metadata }) => !metadata?.deletionTimestamp)
  }

  /** The client that Pods log for a request with this mark in its URL, as `kubectl logs -l app=…` shows it. */
  async clientInLogs(app: string, send: (mark: string) => Promise<unknown>, container?: string): Promise<string> {
    const mark = `who-${Date.now()}`
    await send(mark)
    const place = { namespace, ...(container !== undefined && { container }) }
    return waitFor('the request in the logs', 10_000, async () => {
      const names = (await this.pods(app)).map(({ metadata }) => metadata?.name ?? '')
      const logs = names.map((name) => this.client.core.readNamespacedPodLog({ ...place, name }).catch(() => ''))
      const lines = (await Promise.all(logs)).flatMap((log) => log.split('\n'))
      return lines.find((line) => line.includes(mark))?.split(' ', 1)[0]
    })
  }

  /** `kubectl get nodes -o wide`: names and addresses, control plane first. */
  async nodes(): Promise<{ name: string; address: string }[]> {
    const [names, { items }] = await Promise.all([this.cluster.nodes(), this.client.core.listNode()])
    return names.map((name) => {
      const { status } = items.find(({ metadata }) => metadata?.name === name) ?? {}
      return { name, address: status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '' }
    })
  }

  /** `kubectl get service NAME` */
  async service(name: string): Promise<V1ServiceSpec> {
    return (await this.client.core.readNamespacedService({ namespace, name })).spec ?? {}
  }

  /**
   * Deletes the kube-proxy of a node, as for a restart, and waits until the new Pod runs (or, for `in trouble`, has failed).
   */
  async replaceKubeProxyPod(node: string, wanted: 'running' | 'in trouble' = 'running'): Promise<void> {
    const onNode = async () => (await listKubeProxyPods(this.client)).filter((pod) => pod.node === node)
    const old = (await onNode()).map(({ pod }) => pod)
    for (const name of old) await this.client.core.deleteNamespacedPod({ namespace: kubeProxy.namespace, name })
    await waitFor(`a new kube-proxy on ${node}`, 60_000, async () => {
      const started = (await onNode()).find(({ pod }) => !old.includes(pod))
      return wanted === 'running'
        ? started?.startedAt !== undefined && !started.trouble
        : started?.trouble !== undefined
    })
  }

  /** `kubectl wait --for=condition=Ready pod/NAME` */
  async podReady(name: string): Promise<void> {
    await this.#whenReady(`Pod ${name}`, async () =>
      isReady(await this.client.core.readNamespacedPod({ namespace, name })),
    )
  }

  /** Waits for Pods. Throws UserError after a few seconds if a rule stops their probes, and DeadlineError after two minutes. */
  async #whenReady(pods: string, areReady: () => Promise<boolean>): Promise<void> {
    let explainedAt = Date.now()
    await waitFor(`${pods} to be ready`, 120_000, async () => {
      if (await areReady()) return true
      if (Date.now() - explainedAt > UNREADY_MS * timeoutScale()) {
        await explainBlockedProbe(this.cluster, this.client)
        explainedAt = Date.now()
      }
      return false
    })
  }
}

/** The time after which Pods that are not ready are examined, and examined again: an image in the node starts within it. */
const UNREADY_MS = 5000

const namespace = 'default'

const typeOf = (kind: string) => ({
  apiVersion: kind === 'Deployment' || kind === 'DaemonSet' ? 'apps/v1' : 'v1',
  kind,
})

interface Patch {
  metadata?: { labels?: Record<string, string | null>; annotations?: Record<string, string> }
  spec?: object
  data?: Record<string, string>
}

/** True once the status is that of the latest spec. */
const isObserved = (metadata?: V1ObjectMeta, status?: { observedGeneration?: number }): boolean =>
  (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0)

/** True for a Pod whose containers pass their readiness probes. */
export const isReady = ({ status }: V1Pod): boolean =>
  status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false

/** The changes of a command that plays or resets labs or starts incidents, for the consent question. */
export const labChange = (purpose: string) =>
  `${purpose}, which creates, changes and deletes objects of these labs in namespace "default" (those with the label ${ownSelector}), kube-proxy's ConfigMap, DaemonSet and Pods, and labels, rules, sets, packages and kernel modules of the nodes,`

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
