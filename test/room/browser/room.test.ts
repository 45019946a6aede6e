// The instructor's page in a real browser, for a class of 300 simulated learners; one room for all
// tests, which go on from one another.

import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { recordLab, SimulatedLearner } from '../../../bench/simulated-class.ts'
import { readLab } from '../../../grading/lab-definition.ts'
import { projectRoot } from '../../../host/layout.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { findViolations } from '../../guide/browser/guide-browser.ts'
import { RoomBrowser } from './room-browser.ts'

const LEARNERS = 300
/** Learners who come at once. */
const AT_ONCE = 50
let room: RoomBrowser
let page: Page
const learners: SimulatedLearner[] = []

const tileOf = (name: string) =>
  page.locator('.tile', { has: page.locator('.name', { hasText: new RegExp(`^${name}$`) }) })
const open = (name: string) => page.getByRole('button', { name, exact: true }).click()
/** Names and points of all tiles. */
const POINTS =
  "[...document.querySelectorAll('.tile')].map((tile) => [tile.querySelector('.name').textContent, tile.title])"
const countTiles = () => page.locator('.tile').count()

beforeAll(async () => {
  room = await RoomBrowser.open('browser-test')
  page = await room.page()
})

afterAll(async () => {
  for (const learner of learners) learner.end()
  await room?.end()
})

test('three hundred tiles, those first who raise a hand; texts of learners are text', async () => {
  await page.getByText('No one has joined yet').waitFor()
  const recorded = await recordLab(join(projectRoot, 'data/solved/lab-2-embedded.labgrade'))
  for (let index = 0; index < LEARNERS; index++) {
    const learner = new SimulatedLearner(room.word, `seat ${index}`, recorded)
    learners.push(learner)
    learner.go(index % recorded.rounds.length, index % 40)
    if ((index + 1) % AT_ONCE === 0) await expect.poll(countTiles).toBe(index + 1)
  }
  await expect
    .poll(() => page.locator('.tile .name', { hasText: /^seat \d+$/ }).count())
    .toBe(LEARNERS)
  learners[77]?.tell(
    { kind: 'name', name: '<img src=x onerror=alert(1)>' },
    { kind: 'hand', raised: true },
  )
  await page.locator('.tile').first().getByText('<img src=x onerror=alert(1)>').waitFor()
  expect(await page.locator('.tile img').count()).toBe(0)
  expect(await page.locator('.heat li').count()).toBe(readLab(2).steps.length)
  await page.locator('.heat .hot', { hasText: 'stuck' }).first().waitFor()
})

test('a click shows the failing step and the path of a packet, and nothing that could change the learner’s cluster', async () => {
  await page.locator('.tile.stuck').first().click()
  await page.locator('.step-now', { hasText: 'Expected' }).waitFor()
  await page.locator('.path-drawing svg').waitFor()
  expect(await page.locator('.detail').getByRole('button').allTextContents()).toEqual([
    'Back to the class',
    'Give a task now',
    'Remove …',
  ])
  await open('Back to the class')
})

test('a poll is drawn as bars while the votes come', async () => {
  await open('Poll')
  const dialog = page.getByRole('dialog', { name: 'Poll' })
  await dialog.getByLabel('Question', { exact: true }).fill('Which mode?')
  await dialog.getByLabel(/^Answers to choose/).fill('iptables\nipvs')
  await open('Ask everybody')
  const poll = page.locator('.notice.poll')
  await poll.waitFor()
  const heard = () => learners.slice(0, 20).flatMap(({ polls }) => polls)
  await expect.poll(() => heard().length).toBe(20)
  for (const [index, learner] of learners.slice(0, 20).entries())
    learner.tell({
      kind: 'vote',
      poll: learner.polls[0] ?? '',
      text: index < 15 ? 'ipvs' : 'iptables',
    })
  await poll.getByText(`20 of ${LEARNERS} answered`).waitFor()
  expect(await poll.locator('li strong').allTextContents()).toEqual(['15', '5'])
  await poll.getByRole('button', { name: 'End' }).click()
  await poll.waitFor({ state: 'detached' })
})

test.each(['light', 'dark'] as const)(
  'axe-core finds nothing on the page: %s',
  async (colorScheme) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    expect(await findViolations(page)).toEqual([])
    await open('Join')
    await page.locator('.qr svg').waitFor()
    expect(await findViolations(page, 'dialog[open]')).toEqual([])
    await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).click()
  },
)

test('a room that is killed is back with every tile, and nothing that was told meanwhile is lost', async () => {
  expect(room.complaints).toEqual([])
  for (const learner of learners.slice(0, 100)) learner.toggle()
  await room.kill()
  for (const learner of learners.slice(50, 150)) learner.toggle()
  const began = performance.now()
  await room.start()
  const started = performance.now() - began
  page = await room.page()
  await page
    .locator('.tile')
    .nth(LEARNERS - 1)
    .waitFor()
  const back = performance.now() - began
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
  console.log(
    `The room was back after ${seconds(started)}, all of its tiles after ${seconds(back)}.`,
  )
  // How soon a program starts beside other tests is the machine's affair; what it does then is the
  // room's.
  expect(back - started).toBeLessThan(15_000 * timeoutScale())
  await expect
    .poll(() => learners.reduce((sum, { outbox }) => sum + outbox.waiting().length, 0), {
      timeout: 60_000 * timeoutScale(),
    })
    .toBe(0)
  const shown = async () => new Map(await page.evaluate<[string, string][]>(POINTS))
  const wrong = async () => {
    const points = await shown()
    return learners.filter(
      ({ name, points: own }) => !points.get(name)?.startsWith(`${own} points`),
    )
  }
  // The name of one was changed above.
  await expect.poll(async () => (await wrong()).map(({ name }) => name)).toEqual(['seat 77'])
  expect(await tileOf('seat 3').count()).toBe(1)
})
