import type { Check, CheckEntry, LabSpec } from '../../grading/check-context.ts'
import type { LabDefinition, StepDefinition } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'

export interface FakeStep extends Partial<Omit<StepDefinition, 'id'>> {
  check?: Check
  needsCluster?: boolean
  cost?: CheckEntry['cost']
}

/** A lab of a few steps that exist only in a test. */
export function fakeLab(steps: Record<string, FakeStep>): LabSpec {
  const definitions = Object.entries(steps).map(
    ([id, { check: _check, needsCluster: _needsCluster, cost: _cost, ...given }]) => ({
      id,
      title: `The step ${id} is done`,
      points: 2,
      needs: [],
      moment: false,
      why: 'Because a test says so.',
      hints: ['Look at the test.', 'Change the test.'],
      claims: [],
      ...given,
    }),
  )
  const lab: LabDefinition = { number: 99, folder: '99-fake', title: 'A lab for tests', minutes: 1, steps: definitions }
  const checks = new Map(
    definitions.flatMap(({ id }) => {
      const { check, needsCluster = false, cost } = steps[id] ?? {}
      return check ? [[id, { check, needsCluster, cost }] as const] : []
    }),
  )
  return { lab, checks, observers: [] }
}

/** A snapshot with these objects and no nodes. */
export function emptySnapshot(items: unknown[] = [], takenAt?: number): Snapshot {
  return new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items },
    nodes: [],
    ...(takenAt === undefined ? {} : { takenAt }),
  })
}
