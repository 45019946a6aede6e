// The guide's page in Firefox, on a real cluster: steps of lab 3 by clicking, the packet of a step,
// the dataplane by keyboard.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import { startFirefox } from './firefox.ts'
import { GuideBrowser, runAll } from './guide-browser.ts'
import { PageLearner } from './learner.ts'

let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-firefox-test', 3, {}, startFirefox)
  page = await guide.page()
  learner = new PageLearner(page, 3)
})

afterAll(async () => {
  await guide?.end()
})

test(
  'the first steps of lab 3 are solved by clicking Run and answering, and the score says so',
  async () => {
    expect(page.context().browser()?.browserType().name()).toBe('firefox')
    await runAll(page, '.text')
    await page.getByRole('button', { name: 'Start' }).click()
    for (const { id } of learner.lab.steps.slice(0, 4)) {
      await learner.workThrough(id)
      await page.locator('.walk .main').click()
    }
    const points = learner.lab.steps.slice(0, 4).reduce((sum, step) => sum + step.points, 0)
    await expect.poll(() => page.locator('.score').textContent()).toContain(`${points} / 100`)
  },
  240_000 * timeoutScale(),
)

test(
  'the packet of a step is drawn, and a real one is sent',
  async () => {
    await learner.goTo('node-port')
    const packet = page.getByRole('region', { name: 'The packet of this step' })
    await packet.getByText('at PREROUTING').waitFor()
    if ((await packet.locator('.journey-figure').count()) === 0)
      await packet.getByRole('button', { name: 'Drawing' }).click()
    expect(await packet.locator('.journey-figure .own').count()).toBeGreaterThan(0)
    await packet.getByRole('button', { name: 'Send a real one' }).click()
    const sent = page.getByRole('region', { name: 'The journey of the packet' })
    await sent.getByRole('button', { name: 'Play' }).click()
    await sent.getByText('place 2 of').waitFor()
  },
  120_000 * timeoutScale(),
)

test('the dataplane is read by keyboard, and says why an entry exists', async () => {
  await page.getByRole('tab', { name: 'Dataplane' }).click()
  await page.getByLabel('Because of').selectOption('default/web')
  const tree = page.getByRole('tree')
  await tree.getByRole('treeitem').first().click()
  await page.keyboard.press('End')
  await tree.getByRole('treeitem', { selected: true }).waitFor()
  await page.getByLabel('Selected entry').getByText('Service default/web').first().waitFor()
})

// axe-core and widths are measured in Chromium: here the page's policy forbids what Playwright
// would measure with, once it tries.
test('nothing else was complained about', () => {
  expect(guide.complaints.filter((text) => !text.includes('a JavaScript eval'))).toEqual([])
})
