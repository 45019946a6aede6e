import type { WrittenLab } from '../../grading/lab-definition.ts'
import { type Complaint, oneLine } from './complaint.ts'
import type { LabFiles } from './course-files.ts'
import { textOf } from './lint-text.ts'

/** The reference solution has an entry for each step, in order, and types what the text of that step says. */
export function lintSolution(lab: LabFiles, { steps }: WrittenLab): Complaint[] {
  const file = `labs/${lab.folder}/solution.ts`
  const { solution } = lab
  if (solution === undefined) return []
  if (solution instanceof Error) return [{ file, text: `can't be loaded: ${oneLine(solution)}` }]
  const ids = steps.map(({ id }) => id)
  const own = Object.keys(solution.steps)
  const text = textOf(lab, `labs/${lab.folder}/README.md`)
  const fences = text === undefined || text instanceof Error ? undefined : text.fences
  return [
    ...(own.join() === ids.join()
      ? []
      : [
          {
            file,
            text: `must have the steps ${ids.join(', ')}, and in this order; it has ${own.join(', ') || 'none'}.`,
          },
        ]),
    ...Object.entries(solution.steps).flatMap(([id, { commands, tidy }]) => {
      const typed = fences?.filter(({ step }) => step === id).flatMap((fence) => fence.commands.split('\n'))
      const absent = [...commands, ...(tidy?.commands ?? [])].filter((command) => typed && !typed.includes(command))
      return absent.map((command) => ({
        file,
        text: `step "${id}" types "${command}", which no fence of its section in the README says.`,
      }))
    }),
  ]
}
