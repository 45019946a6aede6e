import { listLabs } from '../checks/lab-folders.ts'
import { NOTES_NAMESPACE, notesName } from '../checks/notebook.ts'
import { type LabBench, loadSolution } from './lab-bench.ts'

/**
 * Takes away what all labs but this one have left on machines and in the cluster. Those that were begun here are known by their
 * notes, which stay.
 */
export async function leaveOthers(number: number, bench: LabBench): Promise<void> {
  const { items } = await bench.client.core.listNamespacedConfigMap({ namespace: NOTES_NAMESPACE })
  const begun = new Set(items.map(({ metadata }) => metadata?.name))
  const others = listLabs().filter((lab) => lab.number !== number && begun.has(notesName(lab.number)))
  await Promise.all(others.map(async ({ folder }) => (await loadSolution(folder)).leave?.(bench)))
}
