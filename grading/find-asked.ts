// Which step or recall question `make answer Q=…` means.

import { Refusal } from '../host/main.ts'
import { shortened } from '../host/plain-text.ts'
import {
  findStep,
  type LabDefinition,
  listLabs,
  type RecallQuestion,
  readLab,
  type StepDefinition,
} from './lab-definition.ts'

/** What an id of Q= names: a step that predicts or asks, or a question about earlier labs. */
export type AskedPlace = { lab: LabDefinition } & (
  | { step: StepDefinition }
  | { recall: RecallQuestion }
)

const idIn = (place: AskedPlace) => ('step' in place ? place.step.id : place.recall.id)

/**
 * The only step of that id with a prediction or a question, or the recall question, in that lab or
 * in all; in one lab `requested` may also be the step's number. Throws Refusal with the existing
 * questions.
 */
export function findAsked(requested: string, number?: number): AskedPlace {
  const id = number && /^\d+$/.test(requested) ? findStep(readLab(number), requested).id : requested
  const labs = (number ? [number] : listLabs().map((lab) => lab.number)).map(readLab)
  const steps = labs.flatMap((lab) => lab.steps.map((step) => ({ lab, step })))
  const places: AskedPlace[] = [
    ...steps.filter(({ step }) => step.question ?? step.predict),
    ...labs.flatMap((lab) => (lab.recall ?? []).map((recall) => ({ lab, recall }))),
  ]
  const [found, another] = places.filter((place) => idIn(place) === id)
  if (found && another)
    throw new Refusal(
      `Labs ${found.lab.number} and ${another.lab.number} have a step "${id}": add LAB=…`,
    )
  if (found) return found
  const questions = [...new Set(places.map((place) => `Q=${idIn(place)}`))].join(', ')
  const all = questions === '' ? 'There is no question.' : `Questions: ${questions}.`
  if (id === '') throw new Refusal(`Q= must name a question. ${all}`)
  const named = steps.find(({ step }) => step.id === id)
  if (named) throw new Refusal(`Step "${id}" of lab ${named.lab.number} has no question. ${all}`)
  throw new Refusal(
    `${number ? `Lab ${number} has no` : 'No lab has the'} question "${shortened(id, 60)}". ${all}`,
  )
}
