// What a learner can trust on the guide's page, in a real browser on a real cluster: changes have
// the right command, clicks are not lost, page and terminal judge alike, the layout is remembered,
// and a lab is solved by clicking.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import { findViolations, GuideBrowser, runAll } from './guide-browser.ts'
import { PageLearner } from './learner.ts'

const CROWD = 'kubectl apply -f labs/02-ipvs/manifests/crowd.yaml'
const folder = mkdtempSync(join(tmpdir(), 'guide-work-test-'))
let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-work-test', 2)
  page = await guide.page()
  learner = new PageLearner(page, 2)
})

afterAll(async () => {
  await guide?.end()
  rmSync(folder, { recursive: true })
})

/** The moments of the timeline as it lists them, without their times. */
async function moments(): Promise<string[]> {
  await page.getByRole('tab', { name: 'Timeline' }).click()
  const options = await page.getByLabel('Changes since').locator('option').allTextContents()
  return options.slice(1).map((text) => text.replace(/^.*?\d:\d\d:\d\d(?: [AP]M)? /, ''))
}

/** Changes of a moment of the timeline, as its list of nodes sums them up: `3 added, 2 removed`. */
async function summaryOf(command: string): Promise<string> {
  const index = (await moments()).findIndex((label) => label.includes(command))
  await page.getByRole('slider').fill(`${index}`)
  await page.locator('.slider', { hasText: command }).waitFor()
  await page.locator('.timeline summary').first().waitFor()
  return (await page.locator('.timeline summary').allTextContents()).join('; ')
}

test(
  'changes have the command that made them: make web, apply, flush-nat, and none has curl',
  async () => {
    await learner.type('make web')
    await learner.type('kubectl get pods')
    await learner.type(CROWD)
    await learner.type('make check-2 STEP=web')
    await learner.type('make ipvs')
    await learner.type('make flush-nat')
    await learner.type(`curl -s --max-time 3 -o /dev/null http://127.0.0.1:1/`)
    await expect.poll(moments).toContainEqual(expect.stringContaining('make flush-nat'))
    const labels = await moments()
    for (const reading of ['kubectl get', 'make check-2', 'curl'])
      expect(labels.filter((label) => label.includes(reading))).toEqual([])
    const order = ['make web', CROWD, 'make ipvs', 'make flush-nat']
    const places = order.map((command) => labels.findIndex((label) => label.includes(command)))
    expect(places, labels.join('\n')).not.toContain(-1)
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(await summaryOf('make web')).toContain('added')
    expect(await summaryOf(CROWD)).toContain('added')
    expect(await summaryOf('make flush-nat')).toContain('removed')
  },
  180_000 * timeoutScale(),
)

test(
  'a check that is typed in a terminal and the page tell the same of a step, by number and by id',
  async () => {
    // One that holds, one that requests prove, one that fails: its Service is missing.
    const { steps } = learner.lab
    for (const [id, word] of [
      ['web', 'web'],
      ['conntrack', String(steps.findIndex((step) => step.id === 'conntrack') + 1)],
      ['node-port', 'node-port'],
    ] as const) {
      await learner.goTo(id)
      // The whole report has more lines than the terminal shows.
      const { text: printed } = await learner.type(`make check-2 STEP=${word} | grep /[1-9]`)
      const found = new RegExp(`([✓✗–·!])\\s+${id}\\s.*?(\\d+/\\d+)`).exec(printed)
      expect(found, printed).not.toBeNull()
      const [, sign = '', points = ''] = found ?? []
      const panel = learner.state(id)
      await expect.poll(() => panel.locator('.verdict').textContent()).toContain(`${points} points`)
      const shown = (await panel.locator('.verdict .sign').textContent()) ?? ''
      expect({ id, isPassed: shown === '✓' }).toEqual({ id, isPassed: sign === '✓' })
    }
  },
  180_000 * timeoutScale(),
)

test(
  'a storm of clicks on every Run loses nothing: each line is typed once, in the order of the text',
  async () => {
    await learner.goTo('iptables-list')
    await learner.type(`history -c; kubectl delete -f labs/02-ipvs/manifests/crowd.yaml`)
    const lines = (await page.locator('.text .fence:has(button.run) pre').allInnerTexts())
      .flatMap((text) => text.trim().split('\n'))
      .map((line) => line.trim())
      .filter((line) => line !== '')
    expect(lines.length).toBeGreaterThan(6)
    // Three times each, faster than a hand can.
    await page.evaluate(`
      for (let round = 0; round < 3; round++)
        for (const button of document.querySelectorAll('.text button.run'))
          if (!button.textContent.includes('Cancel') && !button.textContent.includes('Stop')) button.click()
    `)
    await page.locator('.run-lines').first().waitFor()
    await expect
      .poll(() => page.locator('button.run', { hasText: /Running|Queued/ }).count(), {
        timeout: 120_000 * timeoutScale(),
      })
      .toBe(0)
    const blocks: { line: string; told: string }[][] = await page.evaluate(`
      [...document.querySelectorAll('.text .run-lines')].map((list) =>
        [...list.children].map((item) => ({
          line: item.querySelector('code').textContent.trim(),
          told: item.title,
        })))
    `)
    expect(blocks.flat().map(({ line }) => line)).toEqual(lines)
    // A line that fails ends its block: those after it are not run, and say so. A check that fails
    // ends nothing.
    for (const whole of blocks) {
      const block = whole.filter(({ line }) => !line.startsWith('make check-'))
      const failed = block.findIndex(({ told }) => told.startsWith('failed'))
      const run = failed < 0 ? block : block.slice(0, failed)
      expect(run.filter(({ told }) => told !== 'succeeded')).toEqual([])
      const after = failed < 0 ? [] : block.slice(failed + 1)
      expect(after.filter(({ told }) => told !== 'was not run')).toEqual([])
    }
    const typed = blocks.flat().filter(({ told }) => told !== 'was not run')
    const file = join(folder, 'history')
    await learner.type(`history -w ${file}`)
    const history = readFileSync(file, 'utf8').trim().split('\n')
    expect(history.slice(0, -1).map((line) => line.trim())).toEqual(typed.map(({ line }) => line))
  },
  240_000 * timeoutScale(),
)

test('the line between text and tools moves by keyboard, and is where it was after a reload', async () => {
  const splitter = page.getByRole('separator', { name: 'Width of the text' })
  const before = Number(await splitter.getAttribute('aria-valuenow'))
  await splitter.focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  await expect.poll(() => splitter.getAttribute('aria-valuenow')).toBe(`${before + 4}`)
  await page.reload()
  await expect.poll(() => splitter.getAttribute('aria-valuenow')).toBe(`${before + 4}`)
  expect(await findViolations(page)).toEqual([])
  await splitter.dblclick()
})

test(
  'lab 3 is solved by clicking, from the first to the last step',
  async () => {
    await page.getByRole('combobox', { name: 'Lab', exact: true }).selectOption('3')
    await page.getByRole('button', { name: 'Start lab 3' }).click()
    learner = new PageLearner(page, 3)
    const heading = page.getByRole('heading', { name: `Lab 3: ${learner.lab.title}` })
    await heading.waitFor({ timeout: 120_000 * timeoutScale() })
    const start = page.locator('.walk .main', { hasText: 'Start' })
    await start.waitFor()
    expect(await findViolations(page)).toEqual([])
    await runAll(page, '.text')
    await start.click()
    for (const { id } of learner.lab.steps) {
      await learner.workThrough(id)
      await page.locator('.walk .main').click()
    }
    await expect.poll(() => page.locator('.score').textContent()).toContain('100 / 100 points')
    expect(guide.complaints).toEqual([])
  },
  400_000 * timeoutScale(),
)
