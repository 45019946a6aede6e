import { afterAll, beforeAll, expect, test } from 'vitest'
import { readLab } from '../../checks/lab-definition.ts'
import type { Cluster, Progress } from '../../cluster/driver.ts'
import { projectRoot } from '../../cluster/layout.ts'
import { selectCluster } from '../../cluster/select.ts'
import { timeoutScale } from '../../cluster/wait.ts'
import { LabBench } from '../../scripts/lab-bench.ts'
import { resetLab } from '../../scripts/lab-reset.ts'
import { readLabText } from '../../scripts/lab-text.ts'
import { FenceShell } from './fence-shell.ts'

const silent: Progress = { start: () => undefined, end: () => undefined, note: () => undefined }
const timeoutOf = (seconds: number) => seconds * 1000 * timeoutScale()

/**
 * Registers a test for every fence of a lab's text: all of them are typed into one shell, in order, on a cluster of their own.
 */
export function typeText(number: number): void {
  // The text names the nodes as a learner's cluster has them.
  const name = `k8s-guide-text-${number}`
  const lab = readLab(number)
  const { fences } = readLabText(lab.folder)
  let cluster: Cluster
  let shell: FenceShell

  beforeAll(async () => {
    cluster = await selectCluster('embedded', name)
    await cluster.up(silent)
    await resetLab(lab, await LabBench.open(cluster, silent))
    // npm gives its children a NODE of its own, the path of node; a learner's shell has none.
    const { NODE: _npm, ...env } = process.env
    shell = new FenceShell(projectRoot, { ...env, NAME: name, CLUSTER: 'embedded', NO_COLOR: '1' })
  }, 180_000)

  afterAll(async () => {
    shell?.end()
    await cluster?.down(silent)
  }, 60_000)

  test.each(fences)(
    'line $line: $commands',
    async (fence) => {
      const commands = fence.commands.replace(/k8s-guide-(?=worker|control-plane)/g, `${name}-`)
      const { exitCode, output } = await shell.type({ ...fence, commands, timeout: timeoutOf(fence.timeout) / 1000 })
      expect(exitCode, output).toBe(0)
    },
    timeoutOf(420),
  )
}
