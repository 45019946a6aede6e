// Takes the pictures of INSTRUCTORS.md again: node --import tsx test/room/browser/take-pictures.ts

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { recordLab, SimulatedLearner } from '../../../bench/simulated-class.ts'
import { projectRoot } from '../../../host/layout.ts'
import { RoomBrowser } from './room-browser.ts'

const FOLDER = join(projectRoot, 'docs/pictures')
const NAMES =
  'Ada Alan Anita Barbara Bjarne Brian Claude Dennis Donald Edsger Evelyn Frances Grace Guido Hedy Ingrid Jean John Karen Ken Leslie Linus Margaret Mary Niklaus Radia Richard Shafi Tim Vint'

async function open(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click()
}

await mkdir(FOLDER, { recursive: true })
const room = await RoomBrowser.open('spring')
const recorded = await recordLab(join(projectRoot, 'data/solved/lab-2-embedded.labgrade'))
const learners = NAMES.split(' ').map((name) => new SimulatedLearner(room.word, name, recorded))
const most = recorded.rounds.length - 1
try {
  for (const [index, learner] of learners.entries()) {
    // Two thirds of a class are near each other, some are far behind, some have done it.
    const round = index % 7 === 0 ? most : index % 4 === 0 ? 3 : Math.min(most, 4 + (index % 5))
    learner.go(round, (index * 7) % 31)
    if (index === 3 || index === 17) learner.tell({ kind: 'hand', raised: true })
  }
  const page = await room.page()
  await page
    .locator('.tile')
    .nth(learners.length - 1)
    .waitFor()
  await open(page, 'Plan')
  const began = new Date(Date.now() - 50 * 60_000).toTimeString().slice(0, 5)
  await page.getByRole('dialog').getByRole('textbox').fill(`${began} lab 2 75 min`)
  await open(page, 'Use this plan')
  await page.locator('.pace strong').waitFor()
  learners[5]?.link.end()
  await page.screenshot({ path: join(FOLDER, 'room-class.png') })
  await page.locator('.tile.stuck').first().click()
  await page.locator('.step-now').waitFor()
  await page.locator('.path-drawing').waitFor()
  await page.mouse.move(900, 400)
  await page.screenshot({ path: join(FOLDER, 'room-learner.png') })
  await open(page, 'Back to the class')
  await open(page, 'Poll')
  await page.getByLabel('Question', { exact: true }).fill('Which node answers the request?')
  await page.getByLabel(/^Answers to choose/).fill('worker\nworker2\nthe control plane\nnone')
  await open(page, 'Ask everybody')
  const poll = await page.locator('.notice.poll').elementHandle()
  if (!poll) throw new Error('the poll is not shown')
  await page.context().close()
  const large = await room.page({
    viewport: { width: 1920, height: 1080 },
    colorScheme: 'dark',
  })
  await large.locator('.tile').first().waitFor()
  await open(large, 'Join')
  await large.locator('.qr svg').waitFor()
  await large.screenshot({ path: join(FOLDER, 'room-join.png') })
  await large.context().close()
} finally {
  for (const learner of learners) learner.end()
  await room.end()
}
