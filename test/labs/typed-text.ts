import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { loadSolution, resetLab } from '../../course/lab-solution.ts'
import { FenceShell, learnerEnvironment } from '../../course/lint/fence-shell.ts'
import { typedParts } from '../../course/lint/run-lab.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'

const timeoutOf = (seconds: number) => seconds * 1000 * timeoutScale()

/**
 * Registers a test for every fence and blockquote of a lab's text: all of them are typed into one
 * shell, in order, on a cluster of their own. `allowedFailure` matches the output of a fence that
 * may fail because of the machine.
 */
export async function typeText(number: number, allowedFailure?: RegExp): Promise<void> {
  const name = `k8s-guide-text-${number}`
  const lab = readLab(number)
  const parts = typedParts(lab, await loadSolution(lab.folder))
  let cluster: Cluster
  let shell: FenceShell

  beforeAll(async () => {
    cluster = await selectCluster('embedded', name)
    await cluster.up(silent)
    await resetLab(lab, await LabBench.open(cluster, silent))
    shell = new FenceShell(projectRoot, learnerEnvironment(name))
  })

  afterAll(async () => {
    shell?.end()
    await cluster?.down(silent)
  })

  test.each(parts)(
    'line $line: $commands',
    async (part) => {
      const { exitCode, output } = await shell.type({
        ...part,
        timeout: timeoutOf(part.timeout) / 1000,
      })
      if (exitCode === 0 || allowedFailure?.test(output)) return
      expect.fail(output)
    },
    timeoutOf(420),
  )
}
