// The packet of a step on the guide's page, in a real browser on a real cluster: where it is shown,
// what it holds at each place, and how it is played.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import { findViolations, GuideBrowser } from './guide-browser.ts'
import { hasFocus } from './hand.ts'
import { PageLearner } from './learner.ts'

let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-packet-test', 2)
  page = await guide.page()
  learner = new PageLearner(page, 2)
})

afterAll(async () => {
  await guide?.end()
})

const packet = (one = page) => one.getByRole('region', { name: 'The packet of this step' })

test(
  'the packet of a step is beside it: its own place lit, the packet as it leaves each, by keyboard, and compared',
  async () => {
    await learner.type('make web')
    await learner.type('make ipvs')
    await learner.goTo('output')
    // What is drawn would answer the prediction, so it is not there before one was given.
    await packet().getByText('once you have predicted').waitFor()
    expect(await packet().locator('svg, li, code').count()).toBe(0)
    expect(await findViolations(page)).toEqual([])
    const ask = page.locator('.ask.predict')
    expect(await ask.locator('form').count()).toBe(1)
    await ask.getByLabel('INPUT', { exact: true }).check()
    await ask.getByRole('button', { name: 'Predict' }).click()
    await ask.getByText('You predicted').first().waitFor()
    await packet().getByText('at OUTPUT').waitFor()
    const current = packet().locator('li.at')
    // The step's own place is the first to be shown, in the list and in the drawing.
    await expect.poll(() => current.textContent()).toContain('OUTPUT')
    await packet().locator('li.own.at').waitFor()
    if ((await packet().locator('.journey-figure').count()) === 0)
      await packet().getByRole('button', { name: 'Drawing' }).click()
    expect(await packet().locator('.journey-figure .own').count()).toBeGreaterThan(0)
    const places = packet().locator('.machine li button')
    const count = await places.count()
    const header = () => packet().locator('.header dl').textContent()
    await places.first().focus()
    await page.keyboard.press('Home')
    await expect.poll(() => packet().locator('.header h4').textContent()).toContain('process')
    expect(await header()).toMatch(/^source[\d.]+destination10\.96\.[\d.]+:\d+mark0x0/)
    const headers = [await header()]
    for (let index = 1; index < count; index++) {
      await page.keyboard.press('ArrowDown')
      await packet()
        .getByText(`place ${index + 1} of ${count}`)
        .waitFor()
      headers.push(await header())
    }
    // On its way the packet gets another destination and, from the node, another source; conntrack
    // knows original and reply.
    expect(headers.some((text) => /destination10\.244\./.test(text ?? ''))).toBe(true)
    expect(headers.some((text) => /conntrack, original.+conntrack, reply/s.test(text ?? ''))).toBe(
      true,
    )
    await packet().getByLabel('Compare with').selectOption('beside')
    await packet().getByRole('heading', { name: 'The packet from pod' }).waitFor()
    expect(await packet().locator('li.differs').count()).toBeGreaterThan(0)
    expect(await findViolations(page)).toEqual([])
    await packet().getByLabel('Compare with').selectOption('')
  },
  120_000 * timeoutScale(),
)

test(
  'Play and Pause work by keyboard; nothing moves by itself for a learner who wants less motion',
  async () => {
    const place = async (one: Page) =>
      Number(/place (\d+) of/.exec((await packet(one).textContent()) ?? '')?.[1])
    const moving = await guide.page({ reducedMotion: 'no-preference' })
    await packet(moving).waitFor()
    await packet(moving).locator('.machine li button').first().focus()
    await moving.keyboard.press('Home')
    await expect.poll(() => place(moving)).toBe(1)
    const play = packet(moving).getByRole('button', { name: 'Play' })
    // It is before the places.
    for (let presses = 0; presses < 10 && !(await hasFocus(moving, play)); presses++)
      await moving.keyboard.press('Shift+Tab')
    await moving.keyboard.press('Enter')
    await expect.poll(() => place(moving)).toBeGreaterThan(2)
    const pause = packet(moving).getByRole('button', { name: 'Pause' })
    expect(await hasFocus(moving, pause)).toBe(true)
    await moving.keyboard.press('Enter')
    await packet(moving).getByRole('button', { name: 'Play' }).waitFor()
    await moving.context().close()
    // A real packet is played at once, but not where motion is unwanted.
    await packet().getByRole('button', { name: 'Send a real one' }).click()
    const sent = page.getByRole('region', { name: 'The journey of the packet' })
    await sent.getByRole('button', { name: 'Play' }).waitFor()
    await sent.getByText('place 1 of').waitFor()
    const duration = await page.evaluate<string>(
      "getComputedStyle(document.querySelector('.journeys .packet-dot')).transitionDuration",
    )
    expect(duration).toBe('0s')
    expect(await findViolations(page, '.tools')).toEqual([])
    await page.getByRole('tab', { name: 'Terminals' }).click()
  },
  60_000 * timeoutScale(),
)
