// A room with three learners on clusters of their own: one works in the guide's page, the others
// with `make` alone.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../../cluster/driver.ts'
import { kubeClient } from '../../../cluster/kube-client.ts'
import { selectCluster } from '../../../cluster/select.ts'
import { learnerEnvironment } from '../../../course/lint/fence-shell.ts'
import { notesName, readConfigMap } from '../../../grading/lab-notes.ts'
import { projectRoot, roomMemberFolder, START } from '../../../host/layout.ts'
import { silent } from '../../../host/progress.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { forgetMember } from '../../../room/learner/member.ts'
import { GuideBrowser } from '../../guide/browser/guide-browser.ts'
import { RoomBrowser } from './room-browser.ts'

const [ADA, BOB, CAROL] = ['room-ada', 'room-bob', 'room-carol'] as const
let room: RoomBrowser
let desk: Page
let guide: GuideBrowser
let ada: Page
let others: Cluster[] = []

/**
 * Runs a program of the course as `make` does, for a learner without a page. Returns what it
 * printed, whatever its exit code.
 */
async function run(
  script: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  cluster: string = BOB,
): Promise<string> {
  const result = await promisify(execFile)(
    process.execPath,
    [START, `scripts/${script}.ts`, ...args],
    {
      cwd: projectRoot,
      env: { ...learnerEnvironment(cluster), ...env },
    },
  ).catch((error: { stdout: string; stderr: string }) => error)
  return result.stdout + result.stderr
}

const tileOf = (name: string) => desk.locator('.tile', { hasText: name })

beforeAll(async () => {
  for (const name of [ADA, BOB, CAROL]) forgetMember(roomMemberFolder(name))
  room = await RoomBrowser.open('real-learners')
  desk = await room.page()
  guide = await GuideBrowser.open(ADA, 2, { ROOM: room.word, LEARNER: 'ada' })
  ada = await guide.page()
  others = await Promise.all([BOB, CAROL].map((name) => selectCluster('embedded', name)))
}, 600_000 * timeoutScale())

afterAll(async () => {
  await guide?.end()
  await Promise.all(others.map((cluster) => cluster.down(silent)))
  await room?.end()
  for (const name of [ADA, BOB, CAROL]) forgetMember(roomMemberFolder(name))
})

test('a step that fails and then passes on a learner’s nodes does so on the tile', async () => {
  await ada
    .getByRole('button', { name: /web Pods|two web/i })
    .first()
    .click()
  await tileOf('ada').getByText('1 web').waitFor()
  await tileOf('ada').click()
  await desk.locator('.step-now', { hasText: 'Expected' }).waitFor()
  await desk.locator('.path-drawing svg').waitFor()
  await guide.onNode(`${ADA}-worker`, 'true')
  await ada.evaluate(
    `fetch('/api/solve', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"step":"web"}' })`,
  )
  await desk.locator('.step-now.good').waitFor({ timeout: 120_000 })
})

test('what the instructor tells and asks is on the learner’s page, and the answers come back', async () => {
  await desk.getByRole('button', { name: 'Tell all' }).click()
  await desk.getByLabel('Everybody to step').selectOption('flush')
  await desk.getByRole('button', { name: 'Tell everybody' }).click()
  await ada.getByRole('button', { name: 'Go to step 5' }).click()
  await tileOf('ada').getByText('5 flush').waitFor()
  await ada.getByRole('button', { name: 'Raise hand' }).click()
  await tileOf('ada').getByText('hand').waitFor()
  await desk.getByRole('button', { name: 'Lower the hand' }).click()
  await ada.getByRole('button', { name: 'Raise hand' }).waitFor()
})

test('a task is written into the learner’s cluster, and judged by what its node holds', async () => {
  await desk.getByRole('button', { name: 'Give a task now' }).click()
  const task = ada.locator('.banner', { hasText: 'Task:' })
  await task.waitFor()
  const asked = (await task.textContent()) ?? ''
  const node = /room-ada-worker2?/.exec(asked)?.[0] ?? ''
  const table = /table (nat|filter)/.exec(asked)?.[1]
  const count =
    table === undefined
      ? `iptables -t nat -nvxL KUBE-MARK-MASQ | awk 'NR>2 {sum += $1} END {print sum+0}'`
      : `iptables-save -t ${table} | grep -c '^-A'`
  const answer = (await guide.onNode(node, count)).trim()
  await task.getByRole('textbox').fill(answer)
  await task.getByRole('button', { name: 'Answer' }).click()
  await desk.locator('.task', { hasText: `✓ “${answer}”` }).waitFor()
  const notes = await readConfigMap(await kubeClient(guide.cluster), notesName(2))
  const note = Object.entries(notes ?? {}).find(([key]) => key.startsWith('room-task.'))
  expect(JSON.parse(note?.[1] ?? '{}')).toMatchObject({ node, answer })
})

test('three learners on three clusters are on one page, each with the state of its own nodes', async () => {
  const env = { ROOM: room.word, LEARNER: 'carol' }
  expect(await run('up', [], {}, CAROL)).toContain('make')
  expect(await run('grade', ['3', '--step=web'], env, CAROL)).toMatch(/points|0\//)
  await tileOf('carol').waitFor()
  expect(await run('up', [], {})).toContain('make')
  expect(await run('grade', ['1'], { ROOM: room.word, LEARNER: 'bob' })).toMatch(/points|0\//)
  await tileOf('bob').waitFor()
  expect(await desk.locator('.tile').count()).toBe(3)
  expect(await tileOf('carol').textContent()).toMatch(/^carol(?:Lab )?3 /)
  expect(await tileOf('ada').textContent()).toMatch(/^ada(?:Lab )?2 /)
  expect(await run('leave-room', [], {}, CAROL)).toContain('You have left the room')
  await tileOf('carol').getByText('has left').waitFor()
})

test('make alone joins, tells, is remembered, and leaves', async () => {
  const env = { ROOM: room.word, LEARNER: 'bob' }
  expect(await run('up', [], {})).toContain('make')
  expect(await run('grade', ['1'], env)).toMatch(/points|0\//)
  await tileOf('bob').waitFor()
  expect(await tileOf('bob').textContent()).toMatch(/^bob1 [a-z]/)
  expect(await run('raise-hand', [], {})).toContain('Your hand is raised')
  await tileOf('bob').getByText('hand').waitFor()
  expect(await run('leave-room', [], {})).toContain('You have left the room')
  await tileOf('bob').getByText('has left').waitFor()
  expect(await run('leave-room', [], {})).toContain('You are in no room')
})

test('a learner sees what was sent and leaves on the page', async () => {
  await ada.getByRole('button', { name: 'Room', exact: true }).click()
  const dialog = ada.getByRole('dialog', { name: 'Room' })
  await dialog.getByText('What was sent').click()
  await dialog.getByText('name: ada').waitFor()
  await dialog.getByRole('button', { name: 'Leave the room' }).click()
  await dialog.getByText('Nothing is sent until you join').waitFor()
  await tileOf('ada').getByText('has left').waitFor()
  expect(guide.complaints).toEqual([])
})
