// A player who runs every command of a lab's text and answers nothing gets few points, one who runs
// only its make targets fewer. `make test-lab LAB=3` plays one lab; without LAB all labs are
// played.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import {
  hasUnthinkingLimits,
  MOST_POINTS,
  type Player,
  playUnthinking,
  unthinkingLine,
} from '../../course/lint/thoughtless.ts'
import { loadSpec } from '../../grading/grader.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'

const { LAB } = process.env
const all = listLabs()
  .map(({ number }) => number)
  .filter(hasUnthinkingLimits)
const numbers = LAB ? [Number(LAB)] : all
const MINUTES = 12

describe.each(numbers)('lab %i', (number) => {
  let cluster: Cluster
  let bench: LabBench

  beforeAll(async () => {
    cluster = await selectCluster('embedded', `k8s-guide-thoughtless-${number}`)
    await cluster.up(silent)
    bench = await LabBench.open(cluster, silent)
  })

  afterAll(async () => {
    await cluster?.down(silent)
  })

  test.each<Player>(['thoughtless', 'make-only'])(
    'the %s score is low',
    async (player) => {
      const played = await playUnthinking(player, await loadSpec(readLab(number)), bench)
      const line = unthinkingLine(player, played)
      console.log(`Lab ${number}: ${line}`)
      expect(played.score, line).toBeLessThanOrEqual(MOST_POINTS[player])
    },
    MINUTES * 60_000 * timeoutScale(),
  )
})
