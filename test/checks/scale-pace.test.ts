import { expect, test } from 'vitest'
import { cpuNanos, processesOfKernel } from '../../scripts/scale/kernel-cpu.ts'
import { Pace } from '../../scripts/scale/pace.ts'
import { secondsLeft, spokenSeconds } from '../../scripts/scale/plan.ts'

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
  expect(names(await new Pace(3).steadiest(3, steady.batch))).toEqual(['1.0', '1.1', '1.2'])
  expect(steady.batches()).toBe(1)
})

test('what was slowed down is measured again and left out, and the rest stays in order', async () => {
  const busy = machine([80, 41, 85], [40, 82, 42], [40, 40, 40])
  expect(names(await new Pace(3).steadiest(3, busy.batch))).toEqual(['1.1', '2.0', '2.2'])
  expect(busy.batches()).toBe(2)
})

test('a batch can also be slow by itself, with the work as fast as ever', async () => {
  const taken = [
    { work: 40, took: 100, name: 'a' },
    { work: 40, took: 300, name: 'b' },
    { work: 41, took: 101, name: 'c' },
  ]
  let batches = 0
  const batch = async () => {
    batches++
    return taken
  }
  expect(names(await new Pace(3).steadiest(2, batch))).toEqual(['a', 'c'])
  expect(batches).toBe(1)
})

test('a machine that stays slow is not asked for ever', async () => {
  const pace = new Pace(3)
  await pace.steadiest(1, machine([40]).batch)
  const slow = machine([90, 80], [70, 90], [85, 60], [40, 40])
  expect(names(await pace.steadiest(2, slow.batch))).toEqual(['2.0', '3.1'])
  expect(slow.batches()).toBe(3)
})

test('processor time is that of a session, and grows with work', () => {
  const own = processesOfKernel(process.pid)
  expect(own).toContain(process.pid)
  const before = cpuNanos([process.pid])
  const until = performance.now() + 60
  while (performance.now() < until);
  const used = (cpuNanos([process.pid]) - before) / 1e6
  expect(used).toBeGreaterThan(1)
  expect(cpuNanos([])).toBe(0)
})

test('what is left is reckoned by how long the steps before have taken', () => {
  const steps = [{ seconds: 10 }, { seconds: 20 }, { seconds: 40 }]
  expect(secondsLeft(steps, 0, 0)).toBe(70)
  expect(secondsLeft(steps, 1, 15)).toBe(90)
  expect(secondsLeft(steps, 3, 100)).toBe(0)
  expect([spokenSeconds(12.2), spokenSeconds(150)]).toEqual(['13 s', '3 min'])
})
