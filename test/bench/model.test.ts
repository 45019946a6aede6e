import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { countEqualRecordings } from '../../bench/model.ts'
import { measureSize, OBJECTS, predictLarge, RULES } from '../../bench/model-size.ts'
import { syntheticCluster } from '../../course/scale/synthetic-cluster.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'
import { readObjects } from '../../dataplane/objects.ts'

afterEach(() => vi.restoreAllMocks())

const printed = () => vi.spyOn(console, 'log').mockImplementation(() => undefined)

test('`make bench recordings` counts every recording in a folder, and all are equal', async () => {
  const lines = printed()
  await countEqualRecordings()
  const [equal, all] = /(\d+) of (\d+)\.$/.exec(String(lines.mock.calls[0]?.[0]))?.slice(1) ?? []
  expect(Number(all)).toBeGreaterThan(400)
  expect(equal).toBe(all)
})

test('the figures of a size are of rules that equal the prediction', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  try {
    const cluster = syntheticCluster(20, 2)
    const rules = printIptablesSave(predictLarge(readObjects(cluster).objects).iptables)
    writeFileSync(join(folder, OBJECTS), JSON.stringify(cluster))
    writeFileSync(join(folder, RULES), rules)
    const lines = printed()
    measureSize(folder)
    const figures: Record<string, number> = JSON.parse(String(lines.mock.calls[0]?.[0]))
    expect(Object.keys(figures)).toEqual(['predictMs', 'parseMs', 'compareMs', 'megabytes'])
    for (const figure of Object.values(figures)) expect(figure).toBeGreaterThan(0)

    writeFileSync(join(folder, RULES), rules.replace(/^-A KUBE-SEP-.*\n/m, ''))
    expect(() => measureSize(folder)).toThrow('differs from itself')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
