import { listLabs } from '../grading/lab-folders.ts'
import { NOTES_NAMESPACE, notesName } from '../grading/lab-notes.ts'
import { type LabBench, loadSolution } from './lab-bench.ts'
import { removeRules } from './lab-rules.ts'

/**
 * Takes away what all labs but this one have left on machines and in the cluster, and from the nodes the rules of this one, too.
 * Labs that were begun here are known by their notes, which stay.
 */
export async function leaveOthers(number: number, bench: LabBench): Promise<void> {
  const { items } = await bench.client.core.listNamespacedConfigMap({ namespace: NOTES_NAMESPACE })
  const begun = new Set(items.map(({ metadata }) => metadata?.name))
  const others = listLabs().filter((lab) => lab.number !== number && begun.has(notesName(lab.number)))
  const own = listLabs().filter((lab) => lab.number === number)
  const comments = [...own, ...others].map(async ({ folder }) => (await loadSolution(folder)).comments ?? [])
  await Promise.all([
    removeRules(bench.cluster, (await Promise.all(comments)).flat()),
    ...others.map(async ({ folder }) => (await loadSolution(folder)).leave?.(bench)),
  ])
}
