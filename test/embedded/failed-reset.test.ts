// Resets beside something that failed: one that fails late itself, when the lab's notes are gone,
// and one after an incident that did not begin.

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { INCIDENT_SELECTOR, SHOP_OBJECTS } from '../../course/incident/shop.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { resetLab } from '../../course/lab-solution.ts'
import { readLab } from '../../grading/lab-definition.ts'
import type { ProgressPush, Pushes } from '../../guide/protocol.ts'
import { PageGuide } from '../../guide/server/guide.ts'
import { silent } from '../../host/progress.ts'
import { quickKernel, runOn } from './quick-kernel.ts'

const cluster = new EmbeddedCluster(`failed-reset-${process.pid}`)
let guide: PageGuide
runOn(quickKernel)
beforeAll(async () => {
  await cluster.up(silent)
  guide = await PageGuide.open(cluster, readLab(1), silent, '/nonexistent')
})
afterAll(async () => {
  await guide?.end()
  await cluster.down(silent)
})

/** The progress that a page is shown that joins now. */
function shownProgress(): ProgressPush | undefined {
  const sent: Partial<Pushes>[] = []
  guide.join({
    bufferedAmount: 0,
    send: (text) => sent.push(JSON.parse(text)),
    terminate() {},
    on() {},
  })
  return sent.flatMap(({ progress }) => progress ?? []).at(-1)
}

test('a reset that fails late leaves neither the place of the learner nor the hints', async () => {
  await guide.perform('go', { to: 'web' })
  await guide.perform('hint', { step: 'web' })
  const hints = () => shownProgress()?.steps.flatMap((step) => step.hints)
  expect(shownProgress()?.at).toBe('web')
  expect(hints()).toHaveLength(1)
  vi.spyOn(LabBench.prototype, 'startIn').mockRejectedValueOnce(new Error('the nodes are late'))
  await expect(guide.perform('reset', {})).rejects.toThrow('the nodes are late')
  expect(shownProgress()?.at).toBe('intro')
  expect(hints()).toEqual([])
})

test('a reset removes a shop whose incident did not begin', async () => {
  const bench = await LabBench.open(cluster, silent)
  const { namespace, manifest } = SHOP_OBJECTS
  const deployments = async () =>
    (
      await bench.client.apps.listNamespacedDeployment({
        namespace,
        labelSelector: INCIDENT_SELECTOR,
      })
    ).items.length
  await bench.apply(manifest)
  expect(await deployments()).toBe(1)
  await resetLab(readLab(1), bench)
  expect(await deployments()).toBe(0)
})
