// Takes the pictures of the README again: node --import tsx test/guide/browser/take-pictures.ts

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { projectRoot } from '../../../host/layout.ts'
import { GuideBrowser } from './guide-browser.ts'
import { perform } from './learner.ts'

const FOLDER = join(projectRoot, 'docs/pictures')
const SOLVED = [
  'iptables-list',
  'ipvs',
  'leftovers',
  'flush',
  'kube-ipvs0',
  'tools',
  'sets',
  'ipvs-constant',
]

/** Chooses what a picture is to show. */
const scenes: Record<
  string,
  { dark?: true; show(page: Page, guide: GuideBrowser): Promise<void> }
> = {
  'guide-terminal': {
    async show(page) {
      await perform(page, 'go', { to: 'web' })
      await page.locator('.xterm-rows', { hasText: '#' }).waitFor()
      await page.locator('.xterm-helper-textarea').focus()
      await page.keyboard.type(`PS1='$ '; clear\n`)
      // The nodes are read between the two commands, so that their changes are those of the second
      // one.
      await perform(page, 'check', { step: 'web' })
      await page.locator('.text button.run').first().click()
      await page.locator('.text button.run', { hasText: 'Run again' }).waitFor()
      await page.locator('.state.good').waitFor()
      await page.locator('.changes li').first().waitFor()
    },
  },
  'guide-dataplane': {
    dark: true,
    async show(page) {
      await page.getByRole('tab', { name: 'Dataplane' }).click()
      await page.getByRole('button', { name: /-worker ipvs/ }).click()
      await page.getByLabel('Because of').selectOption('default/web')
      await page.getByRole('treeitem', { name: /10\.96\.[\d.]+,tcp:80/ }).click()
    },
  },
  'guide-step-packet': {
    async show(page) {
      await perform(page, 'go', { to: 'pod-to-service' })
      await perform(page, 'answer', { step: 'pod-to-service', text: 'INPUT, POSTROUTING' })
      const packet = page.getByRole('region', { name: 'The packet of this step' })
      await packet.locator('.journey-figure svg').first().waitFor()
      await packet.locator('.own').first().waitFor()
    },
  },
  'guide-packet-path': {
    async show(page, guide) {
      const node = `${guide.cluster.name}-worker`
      await guide.onNode(
        node,
        'iptables -I OUTPUT -p tcp --dport 80 -m comment --comment firewall -j REJECT',
      )
      await page.getByRole('tab', { name: 'Packet path' }).click()
      await page.getByRole('combobox', { name: 'From', exact: true }).fill('host')
      await page.getByRole('combobox', { name: 'To', exact: true }).fill('svc/web:80')
      await page.getByRole('combobox', { name: 'On', exact: true }).selectOption(node)
      await page.getByRole('button', { name: 'Show the path' }).click()
      await page.locator('.journeys svg').first().waitFor()
    },
  },
}

await mkdir(FOLDER, { recursive: true })
const guide = await GuideBrowser.open('guide', 2)
try {
  for (const [name, { dark, show }] of Object.entries(scenes)) {
    const page = await guide.page({
      colorScheme: dark ? 'dark' : 'light',
      viewport: { width: 1440, height: 900 },
    })
    page.setDefaultTimeout(120_000)
    await page.locator('.text').waitFor()
    if (name === 'guide-dataplane')
      for (const step of SOLVED) await perform(page, 'solve', { step })
    await show(page, guide)
    await page.screenshot({ path: join(FOLDER, `${name}.png`) })
    await page.context().close()
  }
} finally {
  await guide.end()
}
