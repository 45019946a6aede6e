import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { $ } from 'zx'
import { ensurePackages, startMachine } from '../../embedded/index.ts'
import { cacheFolder } from '../../host/layout.ts'
import { waitFor } from '../../host/wait.ts'

const silent = { start: () => {}, end: () => {}, note: () => {} }
const name = `end-${process.pid}`
const processes = async () =>
  (await $({ quiet: true })`ps -eo args`).stdout.split('\n').filter((l) => l.includes(`umid=${name}`))

/** Links of ours to a folder whose name a kernel's command line can't carry. */
const linksTo = (folder: string) =>
  readdirSync('/tmp').filter((entry) => {
    const link = join('/tmp', entry, 'here')
    return entry.startsWith('kube-service-labs-') && existsSync(link) && readlinkSync(link) === folder
  })

test('a kernel boots in a folder of any name, and leaves nothing, though the process that started it lives on', async () => {
  const directory = mkdtempSync(join(cacheFolder, 'the kernel\'s "end" '))
  const packages = join(directory, 'pack"ages')
  await $`cp -al ${await ensurePackages(cacheFolder, silent)} ${packages}`
  const machine = await startMachine({ packages, directory, name, memoryMegabytes: 512 })
  expect((await machine.run(['modprobe', 'bridge'])).stderr).toBe('')
  expect((await machine.run(['echo', 'here'])).stdout).toBe('here\n')
  // libuv's io_uring corrupts the page tables of this kernel (Node 22 and later).
  const uring = 'cat /proc/sys/kernel/io_uring_disabled; echo $UV_USE_IO_URING'
  expect((await machine.run(['sh', '-c', uring])).stdout).toBe('2\n0\n')
  expect((await processes()).length).toBeGreaterThan(3)
  expect([...linksTo(directory), ...linksTo(packages)]).toHaveLength(2)
  await machine.stop()
  await waitFor('the processes of the kernel to end', 3000, async () => (await processes()).length === 0)
  expect([...linksTo(directory), ...linksTo(packages)]).toEqual([])
  rmSync(directory, { recursive: true })
})
