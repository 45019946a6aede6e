// Labs 2 and 3 on the guide's page without a mouse: every command, prediction, answer, check and
// step by keys alone.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import { GuideBrowser, runAll } from './guide-browser.ts'
import { keyboard, tabTo } from './hand.ts'
import { PageLearner } from './learner.ts'

let guide: GuideBrowser
let page: Page
/** What a mouse did on the page. */
const touched: string[] = []

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-keyboard-test', 2)
  page = await guide.page()
  await page.exposeFunction('touched', (what: string) => touched.push(what))
  // Enter and Space click, too, but press no button of a mouse.
  await page.evaluate(
    "for (const kind of ['mousedown', 'touchstart']) addEventListener(kind, ({ target }) => touched(kind + ' ' + target.outerHTML), true)",
  )
})

afterAll(async () => {
  await guide?.end()
})

/**
 * Goes through a lab that is shown at its beginning. Returns what its header says of the points at
 * the end.
 */
async function goThrough(lab: number): Promise<string> {
  const learner = new PageLearner(page, lab, keyboard)
  const onward = page.locator('.walk .main')
  await onward.filter({ hasText: 'Start' }).waitFor()
  await runAll(page, '.text', keyboard)
  await keyboard.press(onward)
  for (const { id } of learner.lab.steps) {
    if (id === 'incident') {
      const { status, text } = await learner.type(`make solve-${lab} STEP=${id}`)
      expect(status, text).toBe(0)
      await learner.passed(id).waitFor({ timeout: 120_000 * timeoutScale() })
    } else await learner.workThrough(id)
    await keyboard.press(onward)
  }
  return (await page.locator('.score').textContent()) ?? ''
}

test(
  'lab 2 is worked through by keyboard alone',
  async () => {
    expect(await goThrough(2)).toContain('100 / 100 points')
    expect(touched).toEqual([])
  },
  900_000 * timeoutScale(),
)

test(
  'lab 3 is chosen and worked through by keyboard alone',
  async () => {
    await tabTo(page, page.getByRole('combobox', { name: 'Lab', exact: true }))
    await page.keyboard.press('ArrowDown')
    const start = page.getByRole('button', { name: 'Start lab 3' })
    await keyboard.press(start)
    // Resetting a cluster to the state in which a lab begins takes its time.
    await start.waitFor({ state: 'hidden', timeout: 120_000 * timeoutScale() })
    expect(await goThrough(3)).toContain('100 / 100 points')
    expect(touched).toEqual([])
    expect(guide.complaints).toEqual([])
  },
  900_000 * timeoutScale(),
)
