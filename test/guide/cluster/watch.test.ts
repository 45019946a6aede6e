// How soon the page shows what a node holds, and what it costs to know that nothing happens. The figures are printed.

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { WebSocket } from 'ws'
import type { Cluster } from '../../../cluster/driver.ts'
import { runOnNode } from '../../../cluster/node-script.ts'
import { selectCluster } from '../../../cluster/select.ts'
import { takeCapture } from '../../../cluster/snapshot.ts'
import { daemonOf } from '../../../embedded/index.ts'
import { readLab } from '../../../grading/lab-definition.ts'
import { openCluster } from '../../../grading/source.ts'
import type { Push } from '../../../guide/protocol.ts'
import { PageGuide } from '../../../guide/server/guide.ts'
import { silent } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'

const NAME = 'guide-watch'
const CHANGES = 20
/** So long after the last change, the nodes are read rarely. */
const SETTLE_MS = 30_000
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

const has = (text: string) =>
  pushes.some((push) => push.type === 'dataplane' && push.changes.some((change) => change.text.includes(text)))

beforeAll(async () => {
  cluster = await selectCluster('embedded', NAME)
  await cluster.up(silent)
  guide = await PageGuide.open(cluster, readLab(2), silent, '/usr/bin')
  guide.join(page)
  await waitFor('the first look', 60_000, async () => pushes.some(({ type }) => type === 'dataplane'))
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

test('a page shows at once what was changed on a node by a program that it knows nothing of', async () => {
  const [, worker = ''] = await cluster.nodes()
  const delays: number[] = []
  for (let change = 0; change < CHANGES; change++) {
    await pause(300 + Math.random() * 4000)
    const comment = `look-${change}`
    const { exitCode } = await runOnNode(
      cluster,
      worker,
      `iptables -t mangle -A PREROUTING -m comment --comment ${comment}`,
    )
    expect(exitCode).toBe(0)
    const began = Date.now()
    await waitFor(`${comment} to be shown`, 30_000, async () => has(comment), 5)
    delays.push(Date.now() - began)
  }
  delays.sort((one, other) => one - other)
  const p95 = delays[Math.ceil(delays.length * 0.95) - 1] ?? 0
  console.log(
    `A change is shown after ${delays[CHANGES / 2]} ms (median), ${p95} ms (p95), ${delays.at(-1)} ms (most).`,
  )
  // On a machine that others keep busy, a look alone takes seconds.
  const { live } = await openCluster(cluster)
  const lookBegan = Date.now()
  await takeCapture(cluster, live.client)
  expect(p95).toBeLessThan(Math.max(1500, 5 * (Date.now() - lookBegan)))
})

test('watching costs little while nothing happens', async () => {
  const daemon = daemonOf(NAME) ?? 0
  await pause(SETTLE_MS)
  const before = { server: process.cpuUsage(), guest: cpuMs(daemon), pushes: pushes.length }
  await pause(IDLE_MS)
  const { user, system } = process.cpuUsage(before.server)
  const server = (user + system) / 1000 / IDLE_MS
  const guest = (cpuMs(daemon) - before.guest) / IDLE_MS
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`
  console.log(
    `While nothing happens, the server takes ${percent(server)} of a core, the cluster with its kernel ${percent(guest)}.`,
  )
  // A look counts a packet of its own, and kube-proxy's syncs start programs: at most one push a second comes of them.
  expect(pushes.length - before.pushes).toBeLessThan(IDLE_MS / 1000)
})
