// Takes the pictures of the README again: node --import tsx test/guide/browser/take-pictures.ts

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { projectRoot } from '../../../host/layout.ts'
import { GuideBrowser } from './guide-browser.ts'

const FOLDER = join(projectRoot, 'docs/pictures')
const SOLVED = ['web', 'iptables-list', 'ipvs', 'leftovers', 'flush', 'kube-ipvs0', 'tools', 'sets', 'ipvs-constant']

/** Chooses what a picture is to show. */
const scenes: Record<string, { dark?: true; show(page: Page, guide: GuideBrowser): Promise<void> }> = {
  'guide-terminal': {
    async show(page) {
      await act(page, 'go', { to: 'node-port' })
      await page.locator('.text h2', { hasText: '12.' }).waitFor()
      await page.locator('.text button.run').first().click()
      await page.locator('.text button.run', { hasText: 'Run again' }).waitFor()
      await page.locator('.changes li').first().waitFor()
    },
  },
  'guide-dataplane': {
    dark: true,
    async show(page) {
      await page.getByRole('tab', { name: 'Dataplane' }).click()
      await page.getByRole('button', { name: /-worker ipvs/ }).click()
      await page.getByLabel('Because of').selectOption('default/web')
      await page.getByRole('treeitem', { name: /^10\.96\.[\d.]+,tcp:80/ }).click()
    },
  },
  'guide-packet-path': {
    async show(page, guide) {
      await guide.onNode(
        `${guide.cluster.name}-worker`,
        'iptables -A KUBE-FORWARD -d 10.244.0.0/16 -m comment --comment firewall -j DROP',
      )
      await page.getByRole('tab', { name: 'Packet path' }).click()
      await page.getByLabel('From').fill('host')
      await page.getByLabel('To').fill('svc/web:80')
      await page.getByRole('button', { name: 'Show the path' }).click()
      await page.locator('.drawing svg').first().waitFor()
    },
  },
}

function act(page: Page, name: string, words: object): Promise<unknown> {
  const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(words) }
  return page.evaluate(`fetch('/api/${name}', ${JSON.stringify(request)}).then((reply) => reply.json())`)
}

await mkdir(FOLDER, { recursive: true })
const guide = await GuideBrowser.open('guide', 2)
try {
  for (const [name, { dark, show }] of Object.entries(scenes)) {
    const page = await guide.page({ colorScheme: dark ? 'dark' : 'light', viewport: { width: 1280, height: 800 } })
    await page.locator('.text').waitFor()
    if (name === 'guide-terminal') for (const step of SOLVED) await act(page, 'solve', { step })
    await show(page, guide)
    await page.screenshot({ path: join(FOLDER, `${name}.png`) })
    await page.context().close()
  }
} finally {
  await guide.end()
}
