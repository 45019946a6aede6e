import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { evidenceFolder } from '../grading/grader.ts'
import { projectRoot } from '../host/layout.ts'

/** The file that lists the shown hints, one per line; `make reset-N` deletes it. */
const memory = (lab: number, cluster: string) => join(projectRoot, evidenceFolder(lab, cluster), 'hints.txt')

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

/** Records that a hint was shown. */
export function rememberHint(lab: number, cluster: string, step: string, tier: number): void {
  const file = memory(lab, cluster)
  mkdirSync(dirname(file), { recursive: true })
  appendFileSync(file, `${step} ${tier}\n`)
}
