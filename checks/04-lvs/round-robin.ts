import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import type { Truth } from '../../grading/question.ts'
import { shareBars } from '../../grading/share-bars.ts'
import { PORT, VIP } from './addresses.ts'
import { askFromOutside, countOf, mustBeAnswered, nodeOf, tally } from './outside-client.ts'
import { lvsStage } from './stage.ts'
import { expectScheduling, heaviest, mustHold } from './virtual-server.ts'

/** Two full rounds of weights 3 and 1, so the split is exact wherever the scheduler stands in its round. */
const REQUESTS = 8
const at = (scheduler: 'rr' | 'wrr') => `${VIP}:${PORT[scheduler]}`
const wrr = { key: `TCP ${at('wrr')}`, scheduler: 'wrr', forward: 'masq', weights: [3, 1] } as const

/** rr takes the real servers strictly in turn, whatever their weights; wrr takes them as often as their weights say. */
export async function schedulersTakeTurns(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  mustHold(stage, { key: `TCP ${at('rr')}`, scheduler: 'rr', forward: 'masq', weights: [3, 1] })
  const weighted = mustHold(stage, wrr)
  const { live } = context
  if (!live) return
  const requests = (['rr', 'wrr'] as const).flatMap((scheduler) =>
    Array.from({ length: REQUESTS }, () => ({ to: at(scheduler) })),
  )
  const answers = await askFromOutside(live, requests)
  mustBeAnswered(stage, requests, answers, 'make check-4 STEP=virtual-server says whether the way there is whole.')
  const turns = answers.slice(0, REQUESTS)
  const shares = answers.slice(REQUESTS)
  const nodes = stage.realServers.map(({ node }) => node)
  context.show(
    shareBars(
      [turns, shares].flatMap((all, index) =>
        nodes.map((node) => ({ labels: [index === 0 ? 'rr' : 'wrr', node], count: countOf(all, node) })),
      ),
    ),
  )
  const again = turns.findIndex((answer, index) => index > 0 && nodeOf(answer) === nodeOf(turns[index - 1]))
  expectScheduling(stage, {
    holds: again === -1,
    expected: `that rr never takes the same real server twice in a row (port ${PORT.rr})`,
    actual: `requests ${again} and ${again + 1} both went to ${nodeOf(turns[again])}`,
  })
  const heavy = heaviest(stage, weighted)
  expectScheduling(stage, {
    holds: countOf(shares, heavy) === (REQUESTS * 3) / 4,
    expected: `${(REQUESTS * 3) / 4} of ${REQUESTS} requests for ${heavy}, whose weight is 3 of 4 (port ${PORT.wrr})`,
    actual: tally(shares, nodes),
  })
}

/** The part of the requests that wrr gives to the heavier real server, by the weights that the director holds. */
export async function heavierShare(context: CheckContext): Promise<Truth> {
  const stage = await lvsStage(context)
  const { realServers } = mustHold(stage, wrr)
  const weights = realServers.map(({ weight }) => weight)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return {
    accepts: [`${Math.max(...weights)}/${total}`],
    look: onNode(stage.director.name, `ipvsadm -Ln -t ${at('wrr')}`),
  }
}
