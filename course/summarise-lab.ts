// What a guide shows when a lab is finished, as Markdown.

import { listLabs, readLab } from '../grading/lab-definition.ts'
import { scoreLine } from '../grading/learner-report.ts'
import type { Report, StepReport } from '../grading/report-schema.ts'
import type { LabProgress } from './lab-progress.ts'

/** What is summed up of a lab. */
export interface LabWork {
  progress: Pick<LabProgress, 'lab' | 'shown' | 'alreadyPassed' | 'hints'>
  report: Pick<Report, 'steps' | 'score' | 'maxScore'>
  /** The steps that a submission does not show: their checks consist of real requests. */
  uncounted: readonly string[]
  minutes: number
}

/**
 * The summary in the words of a guide: in the terminal steps have ids, as `STEP=` takes them; on
 * the page the number and title that its list of steps shows.
 */
export function summariseLab(work: LabWork, where: 'terminal' | 'page'): string {
  const { progress, report, uncounted, minutes } = work
  const { lab, shown, alreadyPassed, hints } = progress
  const { number, steps } = lab.definition
  const stepsAs = where === 'page' ? listOfTitles(steps) : lineOfIds
  const idsWith = (isWanted: (step: StepReport) => boolean) =>
    report.steps.filter(isWanted).map(({ id }) => id)
  const open = idsWith(({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable')
  const unseen = idsWith(({ id, verdict }) => verdict === 'passed' && !shown.has(id))
  const next = listLabs().find((other) => other.number > number)
  const paragraphs = [
    `## Lab ${number}: ${open.length === 0 ? 'done' : 'finished with open steps'}`,
    `**${scoreLine(report)}**`,
    open.length > 0 && stepsAs('Still open (choose one in the list of steps)', open),
    `Time: ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}.`,
    stepsAs('Hints', [...hints.keys()], (id) => `${hints.get(id)}`),
    alreadyPassed.size > 0 && stepsAs('Held already when you came to them', [...alreadyPassed]),
    stepsAs('Passed unseen', unseen),
    lab.outro.replace(/^## What you take home$/m, ''),
    lab.card.replace(/^# /m, '## '),
    where === 'terminal' && '**Next**',
    where === 'terminal' && `Hand in: \`make submit LEARNER=your-name LAB=${number}\``,
    uncounted.length > 0 &&
      stepsAs(
        'A submission is graded from captures of the nodes, without the steps that real requests prove',
        uncounted,
      ),
    next && where === 'page' && `Read on: choose lab ${next.number} in the list above.`,
    next &&
      where === 'terminal' &&
      `Read on: labs/${next.folder}/README.md, ${readLab(next.number).title}: \`make lab-${next.number}\``,
    `The terms of this lab: labs/GLOSSARY.md. Its slides: \`make present\`.`,
  ]
  return paragraphs
    .filter((paragraph) => typeof paragraph === 'string' && paragraph !== '')
    .join('\n\n')
}

/** Some steps in a line: `Label: id, id.`; `more` is said behind each. */
function lineOfIds(label: string, ids: readonly string[], more?: (id: string) => string): string {
  const items = ids.map((id) => (more ? `${id} ${more(id)}` : id))
  return `${label}: ${items.join(', ') || 'none'}.`
}

/** Some steps as a list, each with its number and title. */
const listOfTitles =
  (steps: readonly { id: string; title: string }[]) =>
  (label: string, ids: readonly string[], more?: (id: string) => string): string => {
    const items = steps.flatMap(({ id, title }, index) =>
      ids.includes(id) ? [`- Step ${index + 1}, ${title}${more ? `: ${more(id)}` : ''}`] : [],
    )
    return items.length === 0 ? `${label}: none.` : [`${label}:`, '', ...items].join('\n')
  }
