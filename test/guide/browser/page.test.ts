// The guide's page in a real browser, on a real cluster: one of each for all tests, which go on from one another.

import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { readLab } from '../../../grading/lab-definition.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { GuideBrowser, runAll } from './guide-browser.ts'

const lab = readLab(2)
const NAME = 'guide-page-test'
let guide: GuideBrowser
let page: Page

beforeAll(async () => {
  guide = await GuideBrowser.open(NAME, lab.number)
  page = await guide.page()
})

afterAll(async () => {
  await guide?.end()
})

afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail') return
  const path = join(tmpdir(), `guide-page-${Date.now()}.png`)
  await page.screenshot({ path })
  console.error(`What the page shows after "${task.name}": ${path}`)
})

/** Runs the commands of the step that is shown, and has it checked if it asks for that. */
async function workThrough(id: string): Promise<void> {
  const passed = page.locator('.state.good')
  await runAll(page, '.text > :not(.seen)')
  const ready = page.getByText('Ready to be checked')
  await passed
    .or(ready)
    .first()
    .waitFor({ timeout: 30_000 * timeoutScale() })
  if (await ready.isVisible()) await page.locator('.state').getByRole('button', { name: 'Check' }).click()
  await passed.waitFor({ timeout: 60_000 * timeoutScale() }).catch(async () => {
    throw new Error(
      `step "${id}" does not pass: ${await page.locator('.state').innerText()}\n${await page.locator('.xterm-rows').innerText()}`,
    )
  })
  await runAll(page, '.seen')
}

test('lab 2 is solved by clicking Run, from the first to the last step', async () => {
  await runAll(page, '.text')
  await page.getByRole('button', { name: 'Start' }).click()
  for (const { id } of lab.steps) {
    await page.locator('.state .claim').waitFor()
    const began = Date.now()
    await workThrough(id)
    console.log(id, Date.now() - began)
    await page.locator('.walk .main').click()
  }
  await page.getByText('Save submission').first().waitFor()
  await expect.poll(() => page.locator('.score').innerText()).toContain('100 / 100')
}, 400_000)
