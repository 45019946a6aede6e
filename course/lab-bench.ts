import { consent } from '../cluster/consent.ts'
import { ownSelector } from '../cluster/context/write-guard.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, kubeClient } from '../cluster/kube-client.ts'
import { flushNat } from '../cluster/kube-proxy/flush-nat.ts'
import {
  kubeProxy,
  listKubeProxyPods,
  readConfigConf,
  readDaemonSet,
  writeConfigConf,
} from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { isForeignImage, OWN } from '../cluster/kube-proxy/rollout.ts'
import { switchMode } from '../cluster/kube-proxy/switch-mode.ts'
import { runOnNode } from '../cluster/node-script.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { readMode } from '../dataplane/kube-proxy/config-conf.ts'
import type { SwitchedMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { findStep, readLab } from '../grading/lab-definition.ts'
import { LiveCluster } from '../grading/live-cluster.ts'
import { keepAnswer, keepPrediction } from '../grading/question.ts'
import { STANDARD, type Variant } from '../grading/variant.ts'
import type { Progress } from '../host/progress.ts'
import { waitFor } from '../host/wait.ts'
import { ownVariant, putClassWord } from './cluster-settings.ts'
import { LabObjects } from './lab-objects.ts'
import { holdsOnly } from './settled.ts'

/** The learner's commands as functions on one cluster, for reference solutions. */
export class LabBench extends LabObjects {
  /** The name and size of the labs' Service on this cluster. */
  readonly variant: Variant

  constructor(cluster: Cluster, client: KubeClient, progress: Progress, variant = STANDARD) {
    super(cluster, client, progress)
    this.variant = variant
  }

  /**
   * `purpose` describes the command, as in "reset lab 1"; omit it for a command that only reads.
   */
  static async open(cluster: Cluster, progress: Progress, purpose?: string): Promise<LabBench> {
    if (purpose !== undefined) await consent(cluster, labChange(purpose))
    const client = await kubeClient(cluster)
    const [variant] = await Promise.all([ownVariant(client), putClassWord(client, progress)])
    return new LabBench(cluster, client, progress, variant)
  }

  /** `make ipvs` and `make iptables`, with SCHEDULER= and KUBE_PROXY_VERSION=. */
  async mode(
    mode: KubeProxyMode,
    options: { scheduler?: string; version?: string; force?: boolean } = {},
  ): Promise<void> {
    await switchMode(this.cluster, mode, { ...options, progress: this.progress })
  }

  /**
   * Brings the cluster into a lab's starting state: this mode with its default scheduler, in the
   * cluster's own version, without leftovers or damage; fast if this is already the state.
   */
  async startIn(mode: SwitchedMode): Promise<void> {
    const configured = readMode((await readConfigConf(this.client)).text)
    const isUsual = configured.scheduler === '' || configured.scheduler === 'rr'
    const isConfigured = (configured.mode || 'iptables') === mode && isUsual
    const isForeign = isForeignImage(await readDaemonSet(this.client))
    if (isConfigured && !isForeign && (await holdsOnly(mode, this, this.progress))) return
    await this.mode(mode, { ...(!isUsual && { scheduler: 'rr' }), version: OWN })
    await this.flush()
    // Manually altered rules survive many syncs of iptables mode; a restarted kube-proxy writes all
    // rules.
    if (!(await holdsOnly(mode, this, this.progress))) await this.mode(mode, { force: true })
  }

  /** `make flush-nat` */
  async flush(): Promise<void> {
    const reports = await flushNat(this.cluster, { progress: this.progress })
    for (const { node, removed } of reports)
      this.progress.note(
        removed.length > 0 ? `${node}: removed ${removed.join(', ')}` : `${node}: no leftovers`,
      )
  }

  /** `kubectl -n kube-system edit configmap kube-proxy`; restarts nothing. */
  async editKubeProxyConfig(edit: (text: string) => string): Promise<void> {
    const { text, resourceVersion } = await readConfigConf(this.client)
    const edited = edit(text)
    if (edited !== text) await writeConfigConf(this.client, edited, resourceVersion)
  }

  /** `make answer Q=step A=text` */
  async answer(lab: number, step: string, text: string): Promise<void> {
    await keepAnswer(this.client, lab, findStep(readLab(lab), step), text)
  }

  /** `make answer Q=step A=text` before the step's commands; the first prediction counts. */
  async predict(lab: number, step: string, text: string): Promise<void> {
    await keepPrediction(this.client, lab, findStep(readLab(lab), step), text)
  }

  /**
   * `make exec NODE=… CMD='…'`. Returns its output; throws Error with its standard error if it
   * fails.
   */
  async onNode(node: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await runOnNode(this.cluster, node, script, {
      noted: true,
    })
    if (exitCode !== 0)
      throw new Error(`"${script}" ended with ${exitCode} on ${node}: ${stderr.trim()}`)
    return stdout
  }

  async onEveryNode(script: string): Promise<void> {
    await Promise.all((await this.cluster.nodes()).map((node) => this.onNode(node, script)))
  }

  /** `kubectl exec NAME -- …`. Throws Error with the command's output when it failed. */
  async inPod(name: string, script: string): Promise<string> {
    const live = new LiveCluster(this.cluster, this.client, { keepMoments: false })
    const { exitCode, stdout, stderr } = await live.inPod({ namespace, name }, script)
    if (exitCode !== 0)
      throw new Error(`"${script}" ended with ${exitCode} in Pod ${name}: ${stderr.trim()}`)
    return stdout
  }

  /**
   * The client that Pods log for a request with this mark in its URL, as `kubectl logs -l app=…`
   * shows it.
   */
  async clientInLogs(
    app: string,
    send: (mark: string) => Promise<unknown>,
    container?: string,
  ): Promise<string> {
    const mark = `who-${Date.now()}`
    await send(mark)
    return this.loggedClient(app, mark, container)
  }

  /**
   * The client of the first request with a mark in its URL in the logs of the Pods. Throws
   * DeadlineError if there is none.
   */
  async loggedClient(app: string, mark: string, container?: string): Promise<string> {
    const place = { namespace, ...(container !== undefined && { container }) }
    return waitFor('the request in the logs', 10_000, async () => {
      const names = (await this.pods(app)).map(({ metadata }) => metadata?.name ?? '')
      const logs = names.map((name) =>
        this.client.core.readNamespacedPodLog({ ...place, name }).catch(() => ''),
      )
      const lines = (await Promise.all(logs)).flatMap((log) => log.split('\n'))
      return lines.find((line) => line.includes(mark))?.split(' ', 1)[0]
    })
  }

  /** `kubectl get nodes -o wide`: names and addresses, control plane first. */
  async nodes(): Promise<{ name: string; address: string }[]> {
    const [names, { items }] = await Promise.all([
      this.cluster.nodes(),
      this.client.core.listNode(),
    ])
    return names.map((name) => {
      const { status } = items.find(({ metadata }) => metadata?.name === name) ?? {}
      return {
        name,
        address: status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '',
      }
    })
  }

  /**
   * Deletes the kube-proxy of a node, as for a restart, and waits until the new Pod runs (or, for
   * `in trouble`, has failed).
   */
  async replaceKubeProxyPod(
    node: string,
    wanted: 'running' | 'in trouble' = 'running',
  ): Promise<void> {
    const onNode = async () =>
      (await listKubeProxyPods(this.client)).filter((pod) => pod.node === node)
    const old = (await onNode()).map(({ pod }) => pod)
    for (const name of old)
      await this.client.core.deleteNamespacedPod({ namespace: kubeProxy.namespace, name })
    await waitFor(`a new kube-proxy on ${node}`, 60_000, async () => {
      const started = (await onNode()).find(({ pod }) => !old.includes(pod))
      return wanted === 'running'
        ? started?.startedAt !== undefined && !started.trouble
        : started?.trouble !== undefined
    })
  }
}

const namespace = 'default'

/**
 * The changes of a command that plays or resets labs or starts incidents, for the consent question.
 */
export const labChange = (purpose: string) =>
  `${purpose}, which creates, changes and deletes objects of these labs in namespace "default" (those with the label ${ownSelector}), kube-proxy's ConfigMap, DaemonSet and Pods, and labels, rules, sets, packages and kernel modules of the nodes,`
