import { afterAll, beforeAll } from 'vitest'
import type { Cluster, KubeClient } from '../../cluster/driver.ts'
import { kubeProxy, readConfigConf } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { resetLab } from '../../course/lab-reset.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { type LabDefinition, needsOf } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/source.ts'
import { silent } from '../../host/progress.ts'

/** What the tests of one lab have for themselves, from the first of them on. */
export interface OwnCluster {
  cluster: Cluster
  bench: LabBench
  source: Awaited<ReturnType<typeof openCluster>>
}

/**
 * Registers that an embedded cluster is booted before the tests of this file, brought to the lab's starting state unless `asBooted`,
 * and gone after them.
 */
export function ownCluster(lab: LabDefinition, { asBooted = false } = {}): OwnCluster {
  const own: Partial<OwnCluster> = {}
  beforeAll(async () => {
    const cluster = await selectCluster('embedded', `lab-${lab.number}-test`, { lab: async () => needsOf(lab) })
    own.cluster = cluster
    await cluster.up(silent)
    own.bench = await LabBench.open(cluster, silent)
    own.source = await openCluster(cluster)
    if (!asBooted) await resetLab(lab, own.bench)
    await syncOnlyOnChange(own.source.live.client)
  })
  afterAll(async () => {
    await own.cluster?.down(silent)
  })
  // Whoever asks before the hook has run has no cluster, and fails at once.
  return own as OwnCluster
}

/**
 * Has each kube-proxy that starts from now on sync only when an object changes (`syncPeriod`, 30 s by default): a periodic sync
 * repairs what a test has just broken.
 */
export async function syncOnlyOnChange(client: KubeClient): Promise<void> {
  const { text } = await readConfigConf(client)
  const body = { data: { 'config.conf': text.replaceAll(/syncPeriod: 0s/g, 'syncPeriod: 1h') } }
  await client.core.patchNamespacedConfigMap(
    { namespace: kubeProxy.namespace, name: kubeProxy.name, body },
    client.mergePatch,
  )
}

/** Verdict and reason by step, to be compared. */
export const verdictsOf = (outcomes: readonly StepOutcome[]) =>
  Object.fromEntries(
    outcomes.map(({ id, verdict, reason, failure }) => [id, [verdict, reason ?? failure?.actual ?? '']]),
  )
