// The guide as a learner starts it: one at a time, through a cluster that goes down and comes up again, to its end.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Cluster } from '../../../cluster/driver.ts'
import { selectCluster } from '../../../cluster/select.ts'
import { learnerEnvironment } from '../../../course/lint/run-lab.ts'
import type { ProgressPush, Push } from '../../../guide/protocol.ts'
import { projectRoot, START } from '../../../host/layout.ts'
import { isLive, processStartTime } from '../../../host/live-process.ts'
import { silent } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'

const NAME = 'guide-lifecycle-test'

let cluster: Cluster
const started: ChildProcess[] = []

/** A command of ours, and what it prints. */
function run(script: string, ...words: string[]) {
  const env = { ...learnerEnvironment(NAME), LAB: '2', CI: '1' }
  const child = spawn(process.execPath, [START, script, ...words], { cwd: projectRoot, env })
  started.push(child)
  const printed = { text: '' }
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed.text += text
    })
  return { child, printed, ended: once(child, 'exit') as Promise<[number | null]> }
}

/** Opens the printed address as a browser does. */
async function open(printed: { text: string }) {
  const url = await waitFor('the address', 120_000, async () => /http:\/\/127\S+/.exec(printed.text)?.[0])
  const { host, origin } = new URL(url)
  const cookie = (await fetch(url, { redirect: 'manual' })).headers.get('set-cookie')?.split(';')[0] ?? ''
  const headers = { cookie, origin, 'content-type': 'application/json' }
  const connect = () => {
    const pushes: Push[] = []
    const socket = new WebSocket(`ws://${host}/events`, { headers })
    socket.on('message', (data) => pushes.push(JSON.parse(String(data))))
    socket.on('error', () => {})
    const progress = () => pushes.findLast((push): push is ProgressPush => push.type === 'progress')
    return { pushes, progress }
  }
  const post = async (name: string, body: object) =>
    (await (await fetch(`${origin}/api/${name}`, { method: 'POST', headers, body: JSON.stringify(body) })).json()) as {
      id?: string
      error?: string
    }
  return { connect, post, origin, headers, host }
}

beforeAll(async () => {
  cluster = await selectCluster('embedded', NAME)
  await cluster.up(silent)
})

afterAll(async () => {
  for (const child of started) child.kill('SIGKILL')
  await cluster?.down(silent)
})

test('one guide at a time, two pages that agree, a cluster that comes back, and an end that leaves nothing', async () => {
  const { child, printed, ended } = run('scripts/guide.ts')
  const page = await open(printed)
  const [one, other] = [page.connect(), page.connect()]
  await waitFor('the first look', 60_000, async () => one.progress()?.steps[0]?.verdict)

  // Neither a second page nor the guide of a terminal starts beside it.
  for (const [script, ...words] of [['scripts/guide.ts'], ['scripts/lab.ts', '2']] as const) {
    const second = run(script, ...words)
    expect(await second.ended).toEqual([2, null])
    expect(second.printed.text).toContain(`Process ${child.pid} already serves the guide's page on the cluster`)
  }

  const [, step = ''] = one.progress()?.steps.map(({ id }) => id) ?? []
  await page.post('go', { to: step })
  for (const { progress } of [one, other]) await waitFor('both to agree', 10_000, async () => progress()?.at === step)
  expect((await page.post('go', { to: '<img src=x>' })).error).toContain('<img src=x>')

  // A shell with a job in the background.
  const { id } = await page.post('open-terminal', { place: 'host' })
  const terminal = new WebSocket(`ws://${page.host}/terminal/${id}`, { headers: page.headers })
  let shown = ''
  terminal.on('message', (data) => {
    shown += String(data)
  })
  terminal.on('error', () => {})
  await once(terminal, 'open')
  terminal.send(Buffer.from('sleep 1000 & echo "<$!>" $KUBECONFIG "$NAME-$LAB-$MAKEFLAGS"\r'))
  const job = Number(await waitFor('the job', 20_000, async () => /<(\d+)>/.exec(shown)?.[1]))
  await waitFor('its environment', 10_000, async () => shown.includes(`${cluster.kubeconfig} ${NAME}--`))
  const jobProcess = { pid: job, startTime: processStartTime(job) ?? '' }
  expect(isLive(jobProcess)).toBe(true)

  await cluster.down(silent)
  const trouble = await waitFor('the trouble to be told', 60_000, async () => other.progress()?.trouble)
  expect(trouble).toContain('run `make up`')
  await page.post('check', { step })
  await cluster.up(silent)
  await waitFor('it to be over', 120_000, async () => {
    const { trouble: still, steps } = other.progress() ?? {}
    return still === undefined && steps?.[0]?.verdict !== undefined
  })

  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
  expect(isLive(jobProcess)).toBe(false)
  await expect(fetch(page.origin)).rejects.toThrow()
})
