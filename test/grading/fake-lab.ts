import type { CheckedStep, LabSpec } from '../../grading/check-context.ts'
import type { LabDefinition } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'

export type FakeStep = Partial<Omit<CheckedStep, 'id'>>

/** A step that exists only in a test. */
export const madeStep = (input: FakeStep & { id: string }): CheckedStep => {
  const { id } = input
  return {
    title: `The step ${id} is done`,
    points: 2,
    needs: [],
    kernel: [],
    moment: false,
    why: 'Because a test says so.',
    hints: ['Look at the test.', 'Change the test.'],
    claims: [],
    needsCluster: false,
    onlyAsks: false,
    understanding: 0,
    asked: {},
    check: () => undefined,
    ...input,
  }
}

/** A lab of a few such steps. */
export function fakeLab(fakes: Record<string, FakeStep>): LabSpec {
  const steps = Object.entries(fakes).map(([id, input]) => madeStep({ id, ...input }))
  const lab: LabDefinition = {
    number: 99,
    folder: '99-fake',
    title: 'A lab for tests',
    minutes: 1,
    steps,
  }
  return { lab, steps, observers: [] }
}

/** A snapshot with these objects and no nodes. */
export function emptySnapshot(items: unknown[] = [], takenAt?: number): Snapshot {
  return new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items },
    nodes: [],
    ...(takenAt === undefined ? {} : { takenAt }),
  })
}
