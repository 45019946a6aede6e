import { parseClaims, type WrittenLab } from '../../grading/lab-definition.ts'
import { type Complaint, oneLine } from './complaint.ts'
import type { CourseFiles } from './course-files.ts'

const file = 'labs/claims.yaml'

/** Each step proves a claim, and each claim is proven by steps that exist. */
export function lintClaims({ claims: text }: CourseFiles, labs: ReadonlyMap<string, WrittenLab>): Complaint[] {
  let claims: Record<string, string[]>
  try {
    claims = parseClaims(text)
  } catch (error) {
    return [{ file, text: oneLine(error) }]
  }
  const steps = [...labs].flatMap(([folder, { steps }]) => steps.map(({ id }) => `${Number(folder.slice(0, 2))}/${id}`))
  const proving = new Set(Object.values(claims).flat())
  return [
    ...steps
      .filter((step) => !proving.has(step))
      .map((step) => ({ file, text: `step ${step} proves no claim: name it beside one, or leave it out of the lab.` })),
    ...Object.entries(claims).flatMap(([claim, places]) =>
      places
        .filter((place) => !steps.includes(place))
        .map((place) => ({ file, text: `claim ${claim} names ${place}, which is no step.` })),
    ),
  ]
}
