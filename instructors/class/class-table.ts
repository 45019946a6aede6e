import { plainText, shortened } from '../../host/plain-text.ts'
import type { Judged } from './judge-file.ts'
import type { ClassResult } from './result.ts'

const NAME_WIDTH = 24

/** One line for a submission or cluster that has just been judged. */
export function judgedLine(judged: Judged, done: number, total: number): string {
  const count = `${String(done).padStart(String(total).length)}/${total}`
  if ('refused' in judged) return `${count} ! ${column(judged.file)} ${plainText(judged.refused)}`
  const { learner, lab, score, maxScore, steps } = judged.graded
  const open = steps.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable').map(({ id }) => id)
  const mark = open.length === 0 ? '✓' : '✗'
  const said = open.length === 0 ? 'every step passed' : `open: ${shortened(open.join(', '), 80)}`
  return `${count} ${mark} ${column(learner)} lab ${lab}  ${String(score).padStart(3)}/${maxScore}  ${said}`
}

/** The end of a class's grading for people: per step who failed, flags, refusals, and what it can't know. */
export function classSummary({ graded, refused, labs, cannotKnow, seconds }: ClassResult): string {
  const lines: string[] = []
  for (const { lab, title, learners, finished, meanPercent, steps } of labs) {
    lines.push('', `Lab ${lab}: ${title}`)
    lines.push(
      `${learners} ${learners === 1 ? 'learner' : 'learners'}, ${finished} finished, ${meanPercent} % of the points on average`,
    )
    for (const { number, id, learners: judged, failed } of steps)
      if (failed > 0) lines.push(`  step ${number} failed for ${failed} of ${judged} (${id})`)
  }
  const flagged = graded.filter(({ flags }) => flags.length > 0)
  if (flagged.length > 0) lines.push('', 'Reasons to look:')
  for (const { learner, lab, flags } of flagged)
    for (const { text } of flags) lines.push(`  ${learner}, lab ${lab}: ${plainText(text)}`)
  if (refused.length > 0) lines.push('', 'Refused:')
  for (const { file, reason } of refused) lines.push(`  ${plainText(file)}: ${plainText(reason)}`)
  lines.push('', 'What these grades can not know:', ...cannotKnow.map((text) => `  ${text}`))
  lines.push('', `${graded.length} graded, ${refused.length} refused, ${seconds.toFixed(1)} s`)
  return `${lines.join('\n')}\n`
}

const column = (name: string) => shortened(plainText(name), NAME_WIDTH).padEnd(NAME_WIDTH)
