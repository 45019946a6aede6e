import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { consent } from '../cluster/consent.ts'
import { ForeignObjectError, ownSelector } from '../cluster/context/write-guard.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, kubeClient, unlessCode } from '../cluster/kube-client.ts'
import { flushNat } from '../cluster/kube-proxy/flush-nat.ts'
import { readConfigConf } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import type { RunnableMode } from '../cluster/kube-proxy/proof.ts'
import { switchMode } from '../cluster/kube-proxy/switch-mode.ts'
import { KubernetesObjectApi } from '../cluster/kubernetes.ts'
import { readMode } from '../dataplane/kube-proxy/config-conf.ts'
import type { SwitchedMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { LiveCluster } from '../grading/live-cluster.ts'
import { keepAnswer } from '../grading/question.ts'
import { STANDARD, type Variant } from '../grading/variant.ts'
import { projectRoot } from '../host/layout.ts'
import type { Progress } from '../host/progress.ts'
import { waitFor } from '../host/wait.ts'
import { putClassWord } from './class-word.ts'
import { deployWeb } from './deploy-web.ts'
import { installToolsEverywhere } from './install-tools.ts'
import { ownVariant } from './own-variant.ts'
import { startIn } from './starting-mode.ts'

/** The learner's commands as functions on one cluster, for reference solutions. */
export class LabBench {
  readonly cluster: Cluster
  readonly client: KubeClient
  readonly progress: Progress
  /** The name and size of the labs' Service on this cluster. */
  readonly variant: Variant

  constructor(cluster: Cluster, client: KubeClient, progress: Progress, variant = STANDARD) {
    this.cluster = cluster
    this.client = client
    this.progress = progress
    this.variant = variant
  }

  /** `purpose` describes the command, as in "reset lab 1"; omit it for a command that only reads. */
  static async open(cluster: Cluster, progress: Progress, purpose?: string): Promise<LabBench> {
    if (purpose !== undefined) await consent(cluster, labChange(purpose))
    const client = await kubeClient(cluster)
    const [variant] = await Promise.all([ownVariant(client), putClassWord(cluster, client, progress)])
    return new LabBench(cluster, client, progress, variant)
  }

  /** `make web` */
  async web(): Promise<void> {
    for (const line of await deployWeb(this.client, this.progress, this.variant)) this.progress.note(line)
  }

  /** `make ipvs` and `make iptables`, with SCHEDULER= and KUBE_PROXY_VERSION=. */
  async mode(
    mode: RunnableMode,
    options: { scheduler?: string; version?: string; force?: boolean } = {},
  ): Promise<void> {
    await switchMode(this.cluster, mode, { ...options, progress: this.progress })
  }

  /** Brings the cluster into a lab's starting state: this mode with its default scheduler, without leftovers or damage. */
  async startIn(mode: SwitchedMode): Promise<void> {
    await startIn(mode, this)
  }

  /** `make tools` */
  async tools(): Promise<void> {
    const { lines } = await installToolsEverywhere(this.cluster)
    for (const line of lines) this.progress.note(line)
  }

  /** The option that resets the scheduler to `rr`; empty if it is already the default. */
  async defaultScheduler(): Promise<{ scheduler?: string }> {
    const { scheduler } = readMode((await readConfigConf(this.client)).text)
    return scheduler === '' || scheduler === 'rr' ? {} : { scheduler: 'rr' }
  }

  /** `make flush-nat` */
  async flush(): Promise<void> {
    const reports = await flushNat(this.cluster, { progress: this.progress })
    for (const { node, removed } of reports)
      this.progress.note(removed.length > 0 ? `${node}: removed ${removed.join(', ')}` : `${node}: no leftovers`)
  }

  /** `kubectl apply -f` for missing objects; existing ones are not changed. */
  async apply(file: string): Promise<void> {
    const api = KubernetesObjectApi.makeApiClient(this.client.config)
    await Promise.all(readManifest(file).map((object) => unlessCode(409, api.create(object))))
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
    const api = KubernetesObjectApi.makeApiClient(this.client.config)
    const apiVersion = kind === 'Deployment' || kind === 'DaemonSet' ? 'apps/v1' : 'v1'
    const object = { apiVersion, kind, metadata: { name, namespace: 'default' } }
    try {
      if (!(await unlessCode(404, api.delete(object, undefined, undefined, 0)))) return
    } catch (error) {
      if (!(error instanceof ForeignObjectError)) throw error
      return this.progress.note(error.message)
    }
    await waitFor(`${kind} ${name} to be gone`, 60_000, async () => !(await unlessCode(404, api.read(object))))
  }

  /**
   * Deletes all Services and Deployments with a label and waits until they are gone. In our own clusters this includes
   * objects that a learner created by hand; in other clusters only those with our label.
   */
  async deleteLabelled(label: string): Promise<void> {
    const labelSelector = this.cluster.driver === 'context' ? `${label},${ownSelector}` : label
    const wanted = { namespace: 'default', labelSelector }
    const [services, deployments] = await Promise.all([
      this.client.core.listNamespacedService(wanted),
      this.client.apps.listNamespacedDeployment(wanted),
    ])
    await Promise.all([
      ...services.items.map(({ metadata }) => this.delete('Service', metadata?.name ?? '')),
      ...deployments.items.map(({ metadata }) => this.delete('Deployment', metadata?.name ?? '')),
    ])
  }

  /** `make answer Q=step A=text` */
  async answer(lab: number, step: string, text: string): Promise<void> {
    await keepAnswer(this.client, lab, step, text)
  }

  /** `kubectl expose deployment web --type NodePort` */
  async nodePort(name: string, selector: Record<string, string>, port: number, targetPort = port): Promise<void> {
    const spec = { type: 'NodePort', selector, ports: [{ port, targetPort }] }
    const body = { metadata: { name, labels: selector }, spec }
    await unlessCode(409, this.client.core.createNamespacedService({ namespace: 'default', body }))
  }

  /** `kubectl scale deployment NAME --replicas=…`; waits until the Pods are ready */
  async scale(name: string, replicas: number): Promise<void> {
    const place = { namespace: 'default', name }
    const { apps, mergePatch } = this.client
    await apps.patchNamespacedDeploymentScale({ ...place, body: { spec: { replicas } } }, mergePatch)
    await waitFor(`${replicas} ready Pods of ${name}`, 120_000, async () => {
      const { status } = await this.client.apps.readNamespacedDeployment(place)
      return (status?.readyReplicas ?? 0) === replicas && (status?.replicas ?? 0) === replicas
    })
  }

  /** `kubectl exec NAME -- …`. Throws Error with the command's output when it failed. */
  async inPod(name: string, script: string): Promise<string> {
    const live = new LiveCluster(this.cluster, this.client, { keepMoments: false })
    const { exitCode, stdout, stderr } = await live.inPod({ namespace: 'default', name }, script)
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} in Pod ${name}: ${stderr.trim()}`)
    return stdout
  }

  /** `kubectl wait --for=condition=Ready pod/NAME` */
  async podReady(name: string): Promise<void> {
    await waitFor(`Pod ${name} to be ready`, 120_000, async () => {
      const { status } = await this.client.core.readNamespacedPod({ namespace: 'default', name })
      return status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True')
    })
  }
}

/** The changes of a command that plays or resets labs or starts incidents, for the consent question. */
export const labChange = (purpose: string) =>
  `${purpose}, which creates, changes and deletes objects of these labs in namespace "default" (those with the label ${ownSelector}), kube-proxy's ConfigMap, DaemonSet and Pods, and labels, rules, sets, packages and kernel modules of the nodes,`

/** One step of a reference solution. */
export interface SolutionStep {
  /** The learner's commands; each line is in the lab's README. Empty for a step that only reads. */
  commands: string[]
  play?(bench: LabBench): Promise<void>
  /** It does not affect the steps before it, so all of them are judged on one snapshot, taken after the last. */
  independent?: true
  /** The cleanup after the step has passed. */
  cleanup?: { commands: string[]; play(bench: LabBench): Promise<void> }
}

/** A lab's solution.ts: every step by its id, and the reset. */
export interface LabSolution {
  steps: Record<string, SolutionStep>
  /** Comments of the rules that learners add to nodes in the lab: leaving it deletes these rules. */
  comments?: readonly string[]
  /** Removes other leftovers of the lab on machines and in the cluster that would disturb another lab. */
  leave?(bench: LabBench): Promise<void>
  /** Resets the lab to its starting state from any state; idempotent. */
  reset(bench: LabBench): Promise<void>
}

/** Loads `labs/NN-name/solution.ts`. */
export async function loadSolution(folder: string): Promise<LabSolution> {
  const module: { solution: LabSolution } = await import(`../labs/${folder}/solution.ts`)
  return module.solution
}

interface ManifestObject {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string }
}

function readManifest(file: string): ManifestObject[] {
  return parseAllDocuments(readFileSync(join(projectRoot, file), 'utf8')).map((document) => {
    const object: ManifestObject = document.toJS()
    return { ...object, metadata: { ...object.metadata, namespace: 'default' } }
  })
}
