import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import type { KubeClient } from '../../cluster/driver.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { loadSolution, startOver } from '../../course/lab-solution.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

/** The Pods that starting a lab over deletes. */
async function deletedPods(lab: number): Promise<string[]> {
  const pods: string[] = []
  const deleted = async (kind: string, name: string) => {
    if (kind === 'Pod') pods.push(name)
  }
  const core: Partial<KubeClient['core']> = { listNode: async () => ({ items: [] }) }
  const bench: Partial<LabBench> = {
    delete: deleted,
    async remove(file) {
      for (const document of parseAllDocuments(readFileSync(join(projectRoot, file), 'utf8'))) {
        const { kind, metadata } = document.toJS()
        await deleted(kind, metadata.name)
      }
    },
    deleteLabelled: async () => {},
    startIn: async () => {},
    client: { core } as KubeClient,
  }
  await startOver(lab, await loadSolution(readLab(lab).folder), bench as LabBench)
  return pods.sort()
}

test.each([
  [1, ['client', 'mirror']],
  [2, ['client']],
  [3, []],
  [5, ['client']],
  [7, ['client', 'deaf']],
])('starting lab %i over deletes the Pods that it creates, once, and no others', async (lab, pods) => {
  expect(await deletedPods(lab)).toEqual(pods)
})
