// How a learner works the guide's page: with a mouse, or by keyboard alone.

import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'

/** What a hand does on a page. Each waits for an element that is there. */
export interface Hand {
  /** Presses a button, or the head of something closed. */
  press(target: Locator): Promise<void>
  /** Shows a tab of the tools. */
  show(tab: Locator): Promise<void>
  /** Checks one of several circles, or a box. */
  choose(target: Locator): Promise<void>
  /** Writes into a field, in the place of what it contained. */
  write(target: Locator, text: string): Promise<void>
}

export const mouse: Hand = {
  press: (target) => target.click(),
  show: (tab) => tab.click(),
  choose: (target) => target.check(),
  write: (target, text) => target.fill(text),
}

/** Whether an element has the focus. */
export async function hasFocus(page: Page, target: Locator): Promise<boolean> {
  return (await target.and(page.locator(':focus')).count()) === 1
}

/**
 * The most presses of Tab from one element of the guide's page to another that a test goes to.
 */
const MOST_PRESSES = 150

/**
 * Moves the focus by Tab to an element, or to one of several, out of a terminal by Escape and Tab.
 * Throws Error if it is not reached.
 */
export async function tabTo(page: Page, target: Locator): Promise<void> {
  const terminal = page.locator('.xterm-helper-textarea')
  for (let presses = 0; presses < MOST_PRESSES; presses++) {
    if (await hasFocus(page, target)) return
    if (await hasFocus(page, terminal)) await page.keyboard.press('Escape')
    await page.keyboard.press('Tab')
  }
  throw new Error(`the keyboard does not reach ${target}`)
}

/** As long as a mouse's click waits for a button. */
const WAIT = { timeout: 30_000 * timeoutScale() }

export const keyboard: Hand = {
  async press(target) {
    await tabTo(target.page(), target)
    // During other work a button has the focus, and does nothing.
    await expect.poll(() => target.getAttribute('aria-disabled'), WAIT).not.toBe('true')
    await target.page().keyboard.press('Enter')
  },
  async show(tab) {
    await tab.page().keyboard.press((await tab.getAttribute('aria-keyshortcuts')) ?? '')
  },
  async choose(target) {
    const page = target.page()
    if (await target.isChecked()) return
    // Tab goes to one circle of a group only, the arrows to its others.
    const group = page.locator(`input[name="${await target.getAttribute('name')}"]`)
    const isCircle = (await target.getAttribute('type')) === 'radio'
    await tabTo(page, isCircle ? group : target)
    for (let turns = await group.count(); turns > 0; turns--) {
      if (await hasFocus(page, target)) break
      await page.keyboard.press('ArrowDown')
    }
    if (!(await target.isChecked())) await page.keyboard.press('Space')
  },
  async write(target, text) {
    const { keyboard: keys } = target.page()
    await tabTo(target.page(), target)
    await keys.press('Control+A')
    await keys.type(text)
  },
}
