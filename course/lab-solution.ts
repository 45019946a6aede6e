import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { changeCluster } from '../cluster/cluster-lock.ts'
import type { Cluster } from '../cluster/driver.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { evidenceFolder, loadSpec } from '../grading/grader.ts'
import { judgeRound } from '../grading/judge.ts'
import { type LabDefinition, readLab } from '../grading/lab-definition.ts'
import { begunLabs, notesName } from '../grading/lab-notes.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { projectRoot } from '../host/layout.ts'
import { programText } from '../host/program-text.ts'
import { leaveIncidents } from './incident/revert-incident.ts'
import type { LabBench } from './lab-bench.ts'
import type { SolutionStep } from './solution-step.ts'

export type { SolutionStep } from './solution-step.ts'

/** A lab's solution.ts: every step by its id, and the reset. */
export interface LabSolution {
  steps: Record<string, SolutionStep>
  /**
   * Comments of the rules that learners add to nodes in the lab: leaving it deletes these rules.
   */
  comments?: readonly string[]
  /**
   * Removes other leftovers of the lab on machines and in the cluster that would disturb another
   * lab.
   */
  leave?(bench: LabBench): Promise<void>
  /**
   * Resets the lab to its starting state from any state; idempotent. Default: nothing of the lab
   * and of web, in iptables mode.
   */
  reset?(bench: LabBench): Promise<void>
}

/** Loads `labs/NN-name/solution.ts`. */
export async function loadSolution(folder: string): Promise<LabSolution> {
  const module: { solution: LabSolution } = await import(`../labs/${folder}/solution.ts`)
  return module.solution
}

/**
 * Deletes every rule whose comment matches $1, in all chains of both families; iptables-save prints
 * quotes around a comment with spaces. A learner adds rules through the node's own iptables or
 * through one of its back ends, so all of them are read. Legacy iptables is skipped if the kernel
 * lists no table of its family; that list does not include nf_tables.
 */
const script = programText('course/remove-rules.sh')

/**
 * Removes the rules that learners add in labs from every node: those whose comment is one of these
 * words or begins with `WORD-`.
 */
export async function removeRules(cluster: Cluster, comments: readonly string[]): Promise<void> {
  if (comments.length === 0) return
  const args = [comments.join('|')]
  await Promise.all(
    (await cluster.nodes()).map((node) => runOnNode(cluster, node, script, { args })),
  )
}

/**
 * Removes leftovers of all other labs on machines and in the cluster, and this lab's rules on the
 * nodes. Notes in the cluster show which labs were started; they are kept.
 */
export async function leaveOthers(number: number, bench: LabBench): Promise<void> {
  const others = (await begunLabs(bench.client)).filter((other) => other !== number)
  const solutions = await Promise.all(
    [number, ...others].map((lab) => loadSolution(readLab(lab).folder)),
  )
  const ruleComments = solutions.flatMap(({ comments = [] }) => comments)
  await Promise.all([
    removeRules(bench.cluster, ruleComments),
    ...solutions.slice(1).map((other) => other.leave?.(bench)),
  ])
}

/**
 * Removes leftovers of other labs, resets a lab to its starting state and runs its observers once,
 * so that the state "before" is recorded. Evidence and hints of earlier attempts are deleted.
 */
export function resetLab(lab: LabDefinition, bench: LabBench): Promise<void> {
  return changeCluster(bench.cluster, `resets lab ${lab.number} on`, bench.progress, () =>
    resetAlone(lab, bench),
  )
}

async function resetAlone(lab: LabDefinition, bench: LabBench): Promise<void> {
  const solution = await loadSolution(lab.folder)
  for (const of of await leaveIncidents(bench)) if (of !== lab.number) tellUndone(bench, of, lab)
  await leaveOthers(lab.number, bench)
  await (solution.reset?.(bench) ?? startOver(lab.number, solution, bench))
  rmSync(join(projectRoot, evidenceFolder(lab.number, bench.cluster.name)), {
    recursive: true,
    force: true,
  })
  const source = await openCluster(bench.cluster)
  source.live.checks?.forget(lab.number)
  await judgeRound(await loadSpec(lab), await source.snapshot(), source.live, [])
}

/**
 * Before work on a lab that continues: ends the incidents of other labs, and tells which were not
 * repaired.
 */
export function endIncidentsOfOthers(lab: LabDefinition, bench: LabBench): Promise<void> {
  return changeCluster(bench.cluster, 'ends an incident on', bench.progress, async () => {
    for (const of of await leaveIncidents(bench, lab.number)) tellUndone(bench, of, lab)
  })
}

function tellUndone({ progress }: LabBench, of: number, { number }: LabDefinition): void {
  progress.note(
    `The incident of lab ${of} was not repaired. It was undone, because lab ${number} starts.`,
  )
}

/** The starting state of most labs. */
export async function startOver(
  number: number,
  { leave }: LabSolution,
  bench: LabBench,
): Promise<void> {
  await Promise.all([
    leave?.(bench),
    bench.deleteLabelled('app=web'),
    bench.delete('ConfigMap', notesName(number)),
  ])
  await bench.startIn('iptables')
}
