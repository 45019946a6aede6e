import { afterAll, beforeAll } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { resetLab } from '../../course/lab-reset.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/source.ts'
import type { Progress } from '../../host/progress.ts'

export const silent: Progress = { start: () => undefined, end: () => undefined, note: () => undefined }

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
    const cluster = await selectCluster('embedded', `lab-${lab.number}-test`)
    own.cluster = cluster
    await cluster.up(silent)
    own.bench = await LabBench.open(cluster, silent)
    own.source = await openCluster(cluster)
    if (!asBooted) await resetLab(lab, own.bench)
  })
  afterAll(async () => {
    await own.cluster?.down(silent)
  })
  // Whoever asks before the hook has run has no cluster, and fails at once.
  return own as OwnCluster
}

/** Verdict and reason by step, to be compared. */
export const verdictsOf = (outcomes: readonly StepOutcome[]) =>
  Object.fromEntries(
    outcomes.map(({ id, verdict, reason, failure }) => [id, [verdict, reason ?? failure?.actual ?? '']]),
  )
