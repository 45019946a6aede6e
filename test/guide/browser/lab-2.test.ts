// Lab 2 on the guide's page, in a browser on a real cluster: who clicks every Run and answers
// nothing gets few points, who answers gets all, and a wrong answer is explained.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MOST_POINTS } from '../../../course/lint/thoughtless.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { GuideBrowser, runAll } from './guide-browser.ts'
import { PageLearner, perform } from './learner.ts'

let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-lab-2-test', 2)
  page = await guide.page()
  learner = new PageLearner(page, 2)
})

afterAll(async () => {
  await guide?.end()
})

/** The points that the page shows: `40 / 100 points`. */
async function score(): Promise<number> {
  const text = (await page.locator('.score').textContent()) ?? ''
  return Number(/(\d+) \/ 100/.exec(text)?.[1])
}

/** Clicks Check, if the step has it, and waits for its end. */
async function checkStep(id: string): Promise<void> {
  const check = learner.state(id).getByRole('button', { name: 'Check', exact: true })
  if ((await check.count()) === 0) return
  // The button may not say "Wait …" yet when the click has returned.
  const ended = page.waitForResponse((reply) => reply.url().endsWith('/api/check'), {
    timeout: 120_000 * timeoutScale(),
  })
  await Promise.all([ended, check.first().click()])
}

test(
  'every Run is clicked, every step checked, and nothing answered: few points',
  async () => {
    await runAll(page, '.text')
    for (const { id } of learner.lab.steps) {
      await learner.goTo(id)
      await runAll(page, '.text')
      await checkStep(id)
    }
    const points = await score()
    console.log(`Lab 2 by clicking Run and Check only: ${points} of 100 points`)
    expect(points).toBeGreaterThan(0)
    expect(points).toBeLessThanOrEqual(MOST_POINTS.thoughtless)
  },
  900_000 * timeoutScale(),
)

/** A typical wrong answer to the question of a step, and what is said about it. */
const WRONG: Record<string, [answer: string, said: RegExp]> = {
  prerouting: ['DNAT', /That is iptables mode/],
  'pod-to-service': ['172.18.0.2', /an address of a node/],
  output: ['0x8000', /./],
}

/** Answers the question of the shown step wrong, once, and returns what the page says about it. */
async function answerWrong(answer: string): Promise<string> {
  const ask = page.locator('.ask.question')
  const choice = ask.getByLabel(answer, { exact: true })
  if ((await choice.count()) > 0) await choice.check()
  else await ask.getByRole('textbox').fill(answer)
  await ask.getByRole('button', { name: 'Answer' }).click()
  const told = ask.locator('.told.wrong')
  await told.waitFor({ timeout: 60_000 * timeoutScale() })
  // It is in sight also when the verdict has taken its room.
  const below =
    "const end = (selector) => document.querySelector(selector).getBoundingClientRect().bottom; end('.told.wrong') - end('article.text')"
  await expect.poll(() => page.evaluate(below)).toBeLessThanOrEqual(1)
  return (await told.textContent()) ?? ''
}

test(
  'with answers all points but those of wrong tries, and each wrong answer is explained',
  async () => {
    await perform(page, 'reset', {})
    await page.locator('.walk .main', { hasText: 'Start' }).waitFor()
    await runAll(page, '.text')
    await page.locator('.walk .main').click()
    for (const { id } of learner.lab.steps) {
      const [answer, reply] = WRONG[id] ?? []
      await learner.workThrough(id, async () => {
        await learner.runTask()
        if (answer && reply) {
          const told = await answerWrong(answer)
          expect(told).toMatch(reply)
        }
      })
      await page.locator('.walk .main').click()
    }
    const points = await score()
    console.log(`Lab 2 with answers: ${points} of 100 points`)
    expect(points).toBeGreaterThan(90)
    expect(guide.complaints).toEqual([])
  },
  900_000 * timeoutScale(),
)
