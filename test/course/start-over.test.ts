import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import type { KubeClient } from '../../cluster/driver.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { leaveOthers, loadSolution, startOver } from '../../course/lab-solution.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'
import { LIKE_EMBEDDED, madeCluster } from '../cluster/made-cluster.ts'

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
    cluster: madeCluster({ capabilities: LIKE_EMBEDDED, nodes: async () => [] }),
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
])(
  'starting lab %i over deletes the Pods that it creates, once, and no others',
  async (lab, pods) => {
    expect(await deletedPods(lab)).toEqual(pods)
  },
)

test('starting lab 1 removes the leftovers of the other labs that were begun, and the rules of all of them', async () => {
  const removed: string[] = []
  const scripts: string[] = []
  const notes = ['lab-1', 'lab-2', 'lab-5', 'learner'].map((name) => ({ metadata: { name } }))
  const core: Partial<KubeClient['core']> = {
    listNamespacedConfigMap: async () => ({ items: notes }),
  }
  const cluster = madeCluster({
    capabilities: LIKE_EMBEDDED,
    nodes: async () => ['worker'],
    async script(_node, text) {
      scripts.push(text)
      return { exitCode: 0, stdout: '', stderr: '' }
    },
  })
  const bench: Partial<LabBench> = {
    cluster,
    client: { core } as KubeClient,
    remove: async (file) => void removed.push(file),
    delete: async () => {},
  }
  await leaveOthers(1, bench as LabBench)
  expect(new Set(removed.map((file) => file.split('/')[1]))).toEqual(
    new Set(['02-ipvs', '05-exposure']),
  )
  expect(
    scripts.map((text) => text.split('\n').find((line) => line.startsWith('set -- '))),
  ).toEqual(["set -- 'probe|lab-2-hooks|lab-5'"])
})
