// How soon the page shows what a node holds, and what it costs to know that nothing happens. The figures are printed.

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { WebSocket } from 'ws'
import type { Cluster } from '../../cluster/driver.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import { selectCluster } from '../../cluster/select.ts'
import { daemonOf } from '../../embedded/index.ts'
import { readLab } from '../../grading/lab-definition.ts'
import type { ProgressPush, Push } from '../../guide/protocol.ts'
import { PageGuide } from '../../guide/server/guide.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { silent } from '../labs/own-cluster.ts'

const NAME = process.env.WATCH_NAME ?? 'guide-watch'
const STEP = 'kube-ipvs0'
const CHANGES = 20
const IDLE_MS = 40_000
/** Clock ticks of /proc/PID/stat in a second (sysconf _SC_CLK_TCK). */
const TICKS = 100

let cluster: Cluster
let guide: PageGuide
const pushes: Push[] = []

/** What the guide needs of a WebSocket. */
const page = {
  bufferedAmount: 0,
  send: (text: string) => pushes.push(JSON.parse(text)),
  on: () => page,
  ping() {},
  terminate() {},
} as unknown as WebSocket

const verdict = () => {
  const progress = pushes.findLast((push): push is ProgressPush => push.type === 'progress')
  return progress?.steps.find(({ id }) => id === STEP)?.verdict
}

beforeAll(async () => {
  cluster = await selectCluster('embedded', NAME)
  await cluster.up(silent)
  guide = await PageGuide.open(cluster, readLab(2), silent, '/usr/bin')
  guide.join(page)
  for (const step of ['web', 'ipvs']) await guide.act('solve', { step })
  await waitFor('the step to pass', 60_000, async () => verdict() === 'passed')
})

afterAll(async () => {
  await guide?.end()
  await cluster?.down(silent)
})

/** CPU time of a process and all that it started, in milliseconds. */
function cpuMs(root: number): number {
  const stats = readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      return [
        {
          pid: Number(name),
          parent: Number(fields[1]),
          ticks: [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0),
        },
      ]
    } catch {
      return []
    }
  })
  const of = (pid: number): number =>
    stats
      .filter(({ parent }) => parent === pid)
      .reduce((sum, child) => sum + of(child.pid), stats.find((one) => one.pid === pid)?.ticks ?? 0)
  return (of(root) / TICKS) * 1000
}

test('a step turns at once when the state of a node changes, without anything typed on the page', async () => {
  const [, worker = ''] = await cluster.nodes()
  const { stdout } = await runOnNode(cluster, worker, 'ip -o -4 addr show dev kube-ipvs0')
  const address = /10\.96\.\d+\.\d+\/32/.exec(stdout)?.[0]
  const delays: number[] = []
  for (let change = 0; change < CHANGES; change++) {
    await pause(300 + Math.random() * 4000)
    const adds = change % 2 === 1
    const command = `ip addr ${adds ? 'add' : 'del'} ${address} dev kube-ipvs0`
    const { exitCode, stderr } = await runOnNode(cluster, worker, command)
    expect(exitCode, stderr).toBe(0)
    const began = Date.now()
    await waitFor('the step to turn', 30_000, async () => (verdict() === 'passed') === adds, 5)
    delays.push(Date.now() - began)
  }
  delays.sort((one, other) => one - other)
  const p95 = delays[Math.ceil(delays.length * 0.95) - 1] ?? 0
  console.log(
    `A step turns after ${delays[Math.floor(delays.length / 2)]} ms (median), ${p95} ms (p95), ${delays.at(-1)} ms (most).`,
  )
  expect(p95).toBeLessThan(1500 * timeoutScale())
})

test('watching costs little while nothing happens', async () => {
  const daemon = daemonOf(NAME) ?? 0
  await pause(5000)
  const before = { server: process.cpuUsage(), guest: cpuMs(daemon), pushes: pushes.length }
  await pause(IDLE_MS)
  const { user, system } = process.cpuUsage(before.server)
  const server = (user + system) / 1000 / IDLE_MS
  const guest = (cpuMs(daemon) - before.guest) / IDLE_MS
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`
  console.log(
    `While nothing happens, the server takes ${percent(server)} of a core, the cluster with its kernel ${percent(guest)}.`,
  )
  expect(pushes.length - before.pushes).toBeLessThan(10)
  expect(server + guest).toBeLessThan(0.05 * timeoutScale())
})
