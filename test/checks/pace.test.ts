import { expect, test } from 'vitest'
import { Pace } from '../../scripts/scale/pace.ts'

/** Batches of so many values each, whose work is as the machine has it. */
function machine(...works: readonly number[][]) {
  let batches = 0
  return {
    batch: async () => (works[batches++] ?? []).map((work, index) => ({ work, name: `${batches}.${index}` })),
    batches: () => batches,
  }
}

const names = (taken: readonly { name: string }[]) => taken.map(({ name }) => name)

test('a steady machine is asked once', async () => {
  const steady = machine([40, 41, 44], [40, 40, 40])
  expect(names(await new Pace().steadiest(3, steady.batch))).toEqual(['1.0', '1.1', '1.2'])
  expect(steady.batches()).toBe(1)
})

test('what was slowed down is measured again and left out, and the rest stays in order', async () => {
  const busy = machine([80, 41, 85], [40, 82, 42], [40, 40, 40])
  expect(names(await new Pace().steadiest(3, busy.batch))).toEqual(['1.1', '2.0', '2.2'])
  expect(busy.batches()).toBe(2)
})

test('a machine that stays slow is not asked for ever', async () => {
  const pace = new Pace()
  await pace.steadiest(1, machine([40]).batch)
  const slow = machine([90, 80], [70, 90], [85, 60], [40, 40])
  expect(names(await pace.steadiest(2, slow.batch))).toEqual(['2.0', '3.1'])
  expect(slow.batches()).toBe(3)
})
