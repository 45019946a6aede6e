import { listLabs, readLab } from '../../grading/lab-definition.ts'
import type { LabPlanned } from '../protocol.ts'

/** The labs of this checkout, as the room's page needs them. */
export const labsPlanned = (): LabPlanned[] =>
  listLabs().map(({ number }) => {
    const { title, minutes, steps } = readLab(number)
    return {
      number,
      title,
      minutes,
      steps: steps.map(({ id, title, points, question, predict }) => ({
        id,
        title,
        points,
        ...((question ?? predict) && { question: (question ?? predict)?.ask ?? '' }),
        choices: (question ?? predict)?.choices ?? [],
      })),
    }
  })
