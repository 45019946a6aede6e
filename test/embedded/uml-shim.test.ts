import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { $ } from 'zx'
import { ensurePackages, startMachine } from '../../embedded/index.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const folder = mkdtempSync(join(cacheFolder, 'shim-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A program of this folder, compiled as those of the guest are. */
async function compiled(name: string): Promise<string> {
  const packages = await ensurePackages(cacheFolder, silent)
  const program = join(folder, name)
  const source = join(projectRoot, 'test/embedded', `${name}.c`)
  await $`${packages}/usr/bin/tcc -nostdlib -static -o ${program} ${source}`
  return program
}

test('what the shim reads from an instruction is what the processor says of its page fault', async () => {
  const program = await compiled('fault-access')
  const { stdout: swept } = await $`${program}`
  const [, ran = 0, uncounted = 0] = /^(\d+) ran (\d+) did not count\n$/.exec(swept) ?? [swept]
  expect(Number(ran) - Number(uncounted), swept).toBeGreaterThan(4000)
  const known = {
    'mov (%rbx), %eax': '8b03',
    'mov %eax, 0x40(%rbx)': '894340',
    'mov %eax, 0x100(%rbx)': '898300010000',
    'mov %eax, (%r12,%r9,2)': '4389044c',
    'mov %eax, (%r13)': '41894500',
    'lock add %eax, (%rbx)': 'f00103',
    'mov %fs:(%rbx), %eax': '648b03',
    'mov %eax, 0x10fa(%rip)': '8905fa100000',
    'movl $1, 0x10f6(%rip)': 'c705f610000001000000',
    'rep stos': 'd:f3aa',
    'stos %rax': 'd:48ab',
    'movs from a missing page': 'a4',
    'rep movs to a missing page': 'd:f348a5',
    push: 's:50',
    'push $1': 's:6a01',
    'push (%rbx)': 'ff33',
    pop: 's:58',
    'call behind it': 's:e800000000',
    'call *%rdx': 's:ffd2',
    'call *(%rbx)': 'ff13',
    ret: 's:c3',
    'jmp *%rbx': 'ffe3',
    'an instruction whose end is missing': 'e:8b8300010000',
  }
  const { stdout } = await $`${program} ${Object.values(known)}`
  const seen = stdout
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
  expect(seen).toHaveLength(Object.keys(known).length)
  for (const [index, name] of Object.keys(known).entries()) {
    const [, processor, shim] = seen[index] ?? []
    expect({ name, said: shim }).toEqual({ name, said: processor })
  }
  expect(seen.filter(([, processor]) => processor === 'write').length).toBeGreaterThan(8)
})

test('processes of the guest keep their floating-point registers in system calls, page faults, signals and beside each other, and get page faults as on the host', async () => {
  const program = await compiled('registers')
  await $`${program}`
  const faulting = await compiled('fault-access')
  const { stdout: onHost } = await $`${faulting}`
  const machine = await startMachine({
    packages: await ensurePackages(cacheFolder, silent),
    directory: folder,
    name: `registers-${process.pid}`,
    memoryMegabytes: 512,
  })
  try {
    const runs = Array.from({ length: 3 }, () => machine.run([program]))
    expect((await Promise.all(runs)).map(({ exitCode }) => exitCode)).toEqual([0, 0, 0])
    expect((await machine.run([faulting])).stdout).toBe(onHost)
  } finally {
    await machine.stop()
  }
})
