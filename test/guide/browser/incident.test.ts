// An incident on the guide's page, in a real browser on a real cluster: another lab is left for it,
// its cause is named by clicking, and the page checks the repair.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { unseal } from '../../../course/incident/incident-note.ts'
import { currentNote } from '../../../course/incident/open.ts'
import { incidentNotes, openIncident } from '../../../course/incident/revert-incident.ts'
import { LabBench } from '../../../course/lab-bench.ts'
import { silent } from '../../../host/progress.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { findViolations, GuideBrowser } from './guide-browser.ts'
import { PageLearner } from './learner.ts'

let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-incident-test', 2)
  page = await guide.page()
  learner = new PageLearner(page, 2)
})

afterAll(async () => {
  await guide?.end()
})

test(
  'an incident is diagnosed by clicking, repaired in the terminal and checked by clicking',
  async () => {
    await page.getByRole('combobox', { name: 'Lab', exact: true }).selectOption('8')
    await page.getByRole('button', { name: 'Start lab 8' }).click()
    await page.getByRole('tab', { name: 'Incident' }).click({ timeout: 60_000 * timeoutScale() })
    await page.getByLabel('Seed').fill('two')
    await page.getByRole('button', { name: 'Start an incident' }).click()
    await page.getByRole('region', { name: 'Report' }).waitFor({ timeout: 90_000 * timeoutScale() })
    // The hint that costs points is in view where its button is.
    await page.setViewportSize({ width: 1366, height: 768 })
    await page.getByRole('button', { name: 'Hint costs 5 points' }).click()
    const hint = page.getByRole('list', { name: 'Hints' }).getByRole('listitem')
    await hint.waitFor()
    const box = await hint.boundingBox()
    expect(box ? box.y + box.height : undefined).toBeLessThan(768)
    const bench = await LabBench.open(guide.cluster, silent)
    const note = await currentNote(bench)
    // Closed, so that a learner does not read the causes before looking.
    expect(await page.getByRole('radio').first().isVisible()).toBe(false)
    await page.getByText('Name the cause: ').click()
    await page.getByRole('radio', { name: unseal(note?.sealed ?? '')?.id ?? '' }).check()
    await page.getByRole('button', { name: 'This is the cause' }).click()
    await page.getByText('That is the cause').waitFor()
    const open = await openIncident(await incidentNotes(bench, 8))
    if (!open) throw new Error('no incident is open')
    for (const command of open.incident.fix(open.secret.environment).commands)
      expect((await learner.type(command)).status, command).toBe(0)
    await page.getByRole('tab', { name: 'Incident' }).click()
    await page.getByRole('button', { name: 'Check my repair' }).click()
    const verdicts = page.getByRole('region', { name: 'Your repair' })
    await expect
      .poll(() => verdicts.locator('li.good').count(), { timeout: 120_000 * timeoutScale() })
      .toBe(5)
    await verdicts.getByText('95 of 100 points').waitFor()
    expect(await findViolations(page)).toEqual([])

    await page.getByLabel('Hard: without a list of causes').check()
    await page.getByRole('button', { name: 'Start another incident' }).click()
    const sentence = page.getByLabel('The cause, in a sentence')
    await sentence.fill('A Service is wrong.', { timeout: 90_000 * timeoutScale() })
    await page.getByRole('button', { name: 'This is the cause' }).click()
    await page.getByText('not exactly one').waitFor()
    expect(await page.getByRole('radio').count()).toBe(0)
  },
  300_000 * timeoutScale(),
)
