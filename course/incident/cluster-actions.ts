import type { V1Deployment, V1Service } from '@kubernetes/client-node'
import type { Cluster } from '../../cluster/driver.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import { kubeProxy, listKubeProxyPods, readConfigConf } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { PATH } from '../../cluster/node-report.ts'
import { LiveCluster } from '../../grading/live-cluster.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import { type IncidentEnvironment, SHOP_OBJECTS } from './shop.ts'

const namespace = SHOP_OBJECTS.namespace

/** The commands that start and repair incidents, as functions. */
export class ClusterActions {
  readonly bench: LabBench
  readonly environment: IncidentEnvironment

  constructor(bench: LabBench, environment: IncidentEnvironment) {
    this.bench = bench
    this.environment = environment
  }

  get cluster(): Cluster {
    return this.bench.cluster
  }

  get client(): KubeClient {
    return this.bench.client
  }

  /** `make exec NODE=… CMD='…'`. Throws Error with the command's standard error if it fails. */
  async onNode(node: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.cluster.exec(node, ['sh', '-c', `${PATH}\n${script}`], {
      timeoutMs: 60_000 * timeoutScale(),
    })
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} on ${node}: ${stderr.trim()}`)
    return stdout
  }

  /** Runs `onNode` on every node. */
  async onEveryNode(script: string): Promise<void> {
    await Promise.all((await this.cluster.nodes()).map((node) => this.onNode(node, script)))
  }

  /** `kubectl exec customer -- sh -c '…'`; no error if a request fails. */
  async inCustomer(script: string): Promise<string> {
    const live = new LiveCluster(this.cluster, this.client, { keepMoments: false })
    return (await live.inPod(SHOP_OBJECTS.customer, script)).stdout
  }

  /** `kubectl patch service NAME --type merge` */
  async patchService(name: string, body: Partial<Omit<V1Service, 'spec'>> & { spec?: object }): Promise<void> {
    await this.client.core.patchNamespacedService({ namespace, name, body }, this.client.mergePatch)
  }

  /** `kubectl patch deployment NAME` (strategic merge) */
  async patchDeployment(name: string, body: object): Promise<void> {
    await this.client.apps.patchNamespacedDeployment({ namespace, name, body }, this.client.strategicPatch)
  }

  /** `kubectl patch configmap NAME --type merge` */
  async patchConfigMap(name: string, data: Record<string, string>): Promise<void> {
    await this.client.core.patchNamespacedConfigMap({ namespace, name, body: { data } }, this.client.mergePatch)
  }

  readDeployment(name: string): Promise<V1Deployment> {
    return this.client.apps.readNamespacedDeployment({ namespace, name })
  }

  /** `kubectl label node NAME …`; null removes a label. */
  async labelNode(name: string, labels: Record<string, string | null>): Promise<void> {
    await this.client.core.patchNode({ name, body: { metadata: { labels } } }, this.client.mergePatch)
  }

  /** Edits kube-proxy's configuration as `kubectl edit` does, and restarts nothing. */
  async editConfig(edit: (text: string) => string): Promise<void> {
    const { text } = await readConfigConf(this.client)
    const body = { data: { 'config.conf': edit(text) } }
    const { namespace, name } = kubeProxy
    await this.client.core.patchNamespacedConfigMap({ namespace, name, body }, this.client.mergePatch)
  }

  /** Deletes the kube-proxy of a node, as for a restart, and waits until the new Pod runs (or, for `in trouble`, has failed). */
  async replaceKubeProxyPod(node: string, wanted: 'running' | 'in trouble' = 'running'): Promise<void> {
    const old = (await listKubeProxyPods(this.client)).filter((agent) => agent.node === node).map(({ pod }) => pod)
    for (const name of old) await this.client.core.deleteNamespacedPod({ namespace: kubeProxy.namespace, name })
    await waitFor(`a new kube-proxy on ${node}`, 60_000, async () => {
      const agents = await listKubeProxyPods(this.client)
      const agent = agents.find((one) => one.node === node && !old.includes(one.pod))
      return wanted === 'running' ? agent?.startedAt !== undefined && !agent.trouble : agent?.trouble !== undefined
    })
  }

  /** Waits until no kube-proxy Pod is left on a node. */
  async kubeProxyPodGone(node: string): Promise<void> {
    await waitFor(`kube-proxy to leave ${node}`, 60_000, async () => {
      const { items } = await this.client.core.listNamespacedPod({
        namespace: kubeProxy.namespace,
        labelSelector: kubeProxy.selector,
      })
      return !items.some(({ spec }) => spec?.nodeName === node)
    })
  }

  /** Waits until exactly this many Pods of the shop exist and are ready. */
  async shopReady(replicas = 2): Promise<void> {
    await waitFor('the shop to be ready', 90_000, async () => {
      const { metadata, status } = await this.readDeployment(SHOP_OBJECTS.shop)
      const observed = (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0)
      const { replicas: all = 0, readyReplicas = 0, updatedReplicas = 0 } = status ?? {}
      return observed && [all, readyReplicas, updatedReplicas].every((count) => count === replicas)
    })
  }
}
