// Commands on one cluster at the same time, as people type them into two terminals.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'
import { $ } from 'zx'
import { changeCluster } from '../../cluster/cluster-lock.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { daemonOf } from '../../embedded/index.ts'
import { clusterFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { waitFor } from '../../host/wait.ts'
import { quickKernel, runOn } from './quick-kernel.ts'

const cluster = new EmbeddedCluster(`together-${process.pid}`)
const { name } = cluster
const env = { ...process.env, NAME: name, CLUSTER: 'embedded', CI: '1', KERNEL: quickKernel }
runOn(quickKernel)

/**
 * Daemons, and the main processes of kernels, of this cluster: by what only their command lines
 * hold.
 */
async function processes(): Promise<{ daemons: number; kernels: number }> {
  const lines = (await $({ quiet: true })`ps -eo stat,args`).stdout
    .split('\n')
    .filter((line) => !line.startsWith('Z'))
  return {
    daemons: lines.filter((line) => line.includes(`"name":"${name}"`)).length,
    kernels: lines.filter((line) => line.includes(`umid=${name} `)).length,
  }
}
const nothingLeft = () =>
  waitFor('every process to end', 15_000, async () => {
    const { daemons, kernels } = await processes()
    return daemons + kernels === 0
  })

interface Command {
  child: ChildProcess
  output(): string
  ended: Promise<number | null>
}

const children: ChildProcess[] = []

function start(script: string, ...args: string[]): Command {
  const child = spawn(process.execPath, ['scripts/start.mjs', `scripts/${script}.ts`, ...args], {
    cwd: projectRoot,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
  return { child, output: () => text, ended: once(child, 'exit').then(([code]) => code) }
}
const says = (command: Command, text: string) =>
  waitFor(`"${text}"`, 60_000, async () => command.output().includes(text))
/**
 * A `make up` that holds the cluster's lock and, stopped by a signal, goes no further: booting may
 * take less time than starting a command.
 */
async function stoppedUp(): Promise<Command> {
  const up = start('up')
  await says(up, 'Booting')
  up.child.kill('SIGSTOP')
  return up
}
const codes = (commands: Command[]) => Promise.all(commands.map(({ ended }) => ended))
const works = async () => (await cluster.exec(`${name}-worker`, ['true'])).exitCode === 0

/** Where a test needs a stopped cluster; the others use the one of the test before. */
const stopCluster = async () => {
  await cluster.down(silent)
  await nothingLeft()
}

// A test that failed may have left one stopped, which still holds the lock.
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGCONT')
})
afterAll(stopCluster)

test('four `make up` make one cluster, and `make down` leaves nothing', async () => {
  await stopCluster()
  const ups = [1, 2, 3, 4].map(() => start('up'))
  expect(await codes(ups)).toEqual([0, 0, 0, 0])
  const boots = (up: Command) => up.output().includes('Booting the kernel')
  expect(ups.filter(boots)).toHaveLength(1)
  // On a busy machine one of them may begin when the cluster is up.
  for (const up of ups.filter((one) => !boots(one)))
    expect(up.output()).toMatch(/Waiting for process \d+, which starts the cluster|is up/)
  const { daemons } = await processes()
  expect(daemons).toBe(1)
  expect(await works()).toBe(true)
  expect(await start('down').ended).toBe(0)
  await nothingLeft()
  expect(existsSync(clusterFolder(name))).toBe(false)
  const status = start('status')
  expect(await status.ended).toBe(1)
  expect(status.output()).toContain('is not up: run `make up`')
})

test('`make down` during `make up` waits for it and then stops the cluster', async () => {
  await stopCluster()
  // A stopped `make up` would not do: the daemon that it has started goes on, and the cluster may
  // be up before the status is read.
  let goOn: () => void = () => {}
  const told = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const up = changeCluster(cluster, 'starts', silent, async () => {
    await told
    await cluster.up(silent)
  })
  const status = start('status')
  const down = start('down')
  await Promise.all([status.ended, says(down, 'Waiting for process')])
  goOn()
  await up
  expect(await codes([status, down])).toEqual([1, 0])
  expect(status.output()).toMatch(/is not up: process \d+ starts the cluster/)
  expect(down.output()).toMatch(/Waiting for process \d+, which starts the cluster/)
  await nothingLeft()
  expect(existsSync(clusterFolder(name))).toBe(false)
})

test('after kill -9 of the working `make up`, one waiting `make up` creates the cluster', async () => {
  await stopCluster()
  const first = await stoppedUp()
  const [second, third] = [start('up'), start('up')]
  await Promise.all([says(second, 'Waiting for process'), says(third, 'Waiting for process')])
  first.child.kill('SIGKILL')
  expect(await codes([second, third])).toEqual([0, 0])
  await waitFor('one daemon to be left', 15_000, async () => (await processes()).daemons === 1)
  expect(await works()).toBe(true)
})

test('Ctrl-C of a waiting `make up` does not affect the others', async () => {
  await stopCluster()
  const first = await stoppedUp()
  const second = start('up')
  await says(second, 'Waiting for process')
  second.child.kill('SIGINT')
  await second.ended
  first.child.kill('SIGCONT')
  expect(await first.ended).toBe(0)
  expect(await works()).toBe(true)
})

test('a daemon whose folder was removed, or belongs to another one, ends by itself', async () => {
  await cluster.up(silent)
  const first = daemonOf(name)
  rmSync(clusterFolder(name), { recursive: true })
  expect(await cluster.running()).toBe(false)
  await cluster.up(silent)
  expect(daemonOf(name)).not.toBe(first)
  await waitFor('the first daemon to end', 15_000, async () => (await processes()).daemons === 1)
  // Its end took nothing from the second one.
  expect(existsSync(join(clusterFolder(name), 'kubeconfig'))).toBe(true)
  expect(await works()).toBe(true)
})

test('two `make lab-1` run one after the other, and both get all points', async () => {
  const labs = [start('lab', '1'), start('lab', '1')]
  expect(await codes(labs), labs.map((lab) => lab.output()).join('\n----\n')).toEqual([0, 0])
  const output = labs.map((lab) => lab.output())
  expect(
    output.filter((text) => /Waiting for process \d+, which plays lab 1/.test(text)),
    output.join('\n----\n'),
  ).toHaveLength(1)
})
