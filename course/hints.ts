import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Cluster, requireUp } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { evidenceFolder, grade } from '../grading/grader.ts'
import { findStep, type LabDefinition, type StepDefinition } from '../grading/lab-definition.ts'
import { begunLabs } from '../grading/lab-notes.ts'
import { projectRoot } from '../host/layout.ts'
import { Refusal } from '../host/main.ts'

/** The file that lists the shown hints, one per line; `make reset-N` deletes it. */
const memory = (lab: number, cluster: string) =>
  join(projectRoot, evidenceFolder(lab, cluster), 'hints.txt')

/** The highest shown tier of each step. */
export function shownHints(lab: number, cluster: string): Map<string, number> {
  const file = memory(lab, cluster)
  const shown = new Map<string, number>()
  for (const line of existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []) {
    const [step = '', tier] = line.split(' ')
    if (Number(tier) > (shown.get(step) ?? 0)) shown.set(step, Number(tier))
  }
  return shown
}

/**
 * Records that a hint was shown. On a disk that is full or read-only, it is shown without a record.
 */
export function rememberHint(lab: number, cluster: string, step: string, tier: number): void {
  const file = memory(lab, cluster)
  try {
    mkdirSync(dirname(file), { recursive: true })
    appendFileSync(file, `${step} ${tier}\n`)
  } catch {
    // The record is only for the next tier and the summary of the lab.
  }
}

/**
 * The wanted tier, else the next one after those that were shown; the last one again after all.
 * @throws Refusal for a tier that the step does not have
 */
export function chosenTier(
  { id, hints }: StepDefinition,
  requested: string | undefined,
  shown = 0,
): number {
  const tier = Number(requested || Math.min(shown + 1, hints.length))
  if (Number.isInteger(tier) && tier >= 1 && tier <= hints.length) return tier
  throw new Refusal(
    `"${requested}" is not a hint of step "${id}": it has ${hints.length}, TIER=1 is the most general.`,
  )
}

/**
 * The lab that was worked on last, according to the labs' notes in the cluster; prints its number.
 * @throws Refusal if none was started
 */
export async function labInWork(cluster: Cluster): Promise<number> {
  await requireUp(cluster)
  const [last, ...others] = await begunLabs(await kubeClient(cluster))
  if (last === undefined)
    throw new Refusal(
      'Which lab? None was started on this cluster: choose one, for example `make hint LAB=2`.',
    )
  const rest =
    others.length > 0 ? `, of labs ${[last, ...others].toSorted((a, b) => a - b).join(', ')}` : ''
  console.log(`Lab ${last}, worked on last${rest}. LAB= chooses another one.`)
  return last
}

/** The first step that does not pass on the cluster now. */
export async function firstOpenStep(
  lab: LabDefinition,
  { driver, name }: Cluster,
): Promise<StepDefinition | undefined> {
  const report = await grade({ lab: lab.number, source: { kind: 'cluster', driver, name } })
  if (report.trouble !== undefined)
    throw new Refusal(
      `${report.trouble} Or name a step: make hint LAB=${lab.number} STEP=${lab.steps[0]?.id}`,
    )
  const open = report.steps.find(({ verdict }) => verdict === 'failed' || verdict === 'not yet')
  return open && findStep(lab, open.id)
}
