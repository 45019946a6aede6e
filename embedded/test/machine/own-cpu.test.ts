import { expect, test } from 'vitest'
import { ownCpu, readCpuList } from '../../machine/own-cpu.ts'

const kernel = (session: string, ...cpus: number[]) => ({ session, cpus })

test('a kernel gets the CPU with the fewest kernels, each counted once', () => {
  expect(ownCpu([0, 1], [])).toBe(1)
  expect(ownCpu([0, 1], [kernel('a', 1), kernel('a', 1), kernel('b', 0)])).toBe(1)
  expect(ownCpu([0, 1], [kernel('a', 1), kernel('b', 1), kernel('c', 0)])).toBe(0)
  expect(ownCpu([2, 3, 5], [kernel('a', 5), kernel('b', 3)])).toBe(2)
})

test('a kernel that may run on any CPU is not counted', () => {
  expect(ownCpu([0, 1], [kernel('a', 0, 1), kernel('b', 1)])).toBe(0)
})

test('no CPU is chosen if there is only one, or none is known', () => {
  expect(ownCpu([4], [])).toBeUndefined()
  expect(ownCpu([], [])).toBeUndefined()
})

test('CPU lists are read in the format of the kernel', () => {
  expect(readCpuList('0-3,8\n')).toEqual([0, 1, 2, 3, 8])
  expect(readCpuList('7')).toEqual([7])
  expect(readCpuList('')).toEqual([])
  expect(readCpuList('x,3-1,2')).toEqual([2])
})
