// Lab 6: what only this machine's own kernel can do, nftables mode and iptables-nft, measured by
// `make measure NFT=1`.

import * as z from 'zod'
import {
  HOST_MEASUREMENT,
  HOST_TROUBLE,
  type HostMeasurement,
  hostMeasurement,
  largestPoint,
  median,
  risesClearly,
  seriesOf,
} from '../../course/scale/measurement.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound, NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { expectMeasurable, expectPredictedCounts } from './run.ts'
import { type Curve, flat, rising, shapesIn } from './shapes.ts'

const MEASURE = 'make measure NFT=1'
const show = (part: string) => `${MEASURE} SHOW=${part}`

/**
 * The run of `make measure NFT=1`. Not applicable where that was tried in vain, or can't be tried.
 */
async function hostRun({ notes, live }: CheckContext): Promise<HostMeasurement> {
  const run = notes.read(HOST_MEASUREMENT, hostMeasurement)
  const trouble = run ? undefined : notes.read(HOST_TROUBLE, z.string())
  if (trouble !== undefined) throw new NotApplicable(trouble)
  if (!run) await expectMeasurable(live, 'host')
  return expectFound(run, {
    inspect: show('1'),
    expected: "a run of nftables mode on this machine's own kernel",
    actual: 'no such run in the ConfigMap lab-6',
    next: MEASURE,
  })
}

/**
 * The list that nftables mode is compared with: iptables-nft where it works, which it does almost
 * everywhere. Throws NotApplicable without one: nothing else rises, beside which a curve could be
 * flat.
 */
function listOf({ curves }: HostMeasurement): Curve {
  const listed =
    curves.find(({ curve }) => curve === 'iptables-nft') ??
    curves.find(({ curve }) => curve === 'iptables-legacy')
  if (!listed) throw new NotApplicable("this machine's own kernel has no iptables to compare with")
  return { title: listed.curve, points: listed.points }
}

function nftablesOf({ curves }: HostMeasurement): Curve {
  const points = curves.find(({ curve }) => curve === 'nftables')?.points ?? []
  return { title: 'nftables mode', points }
}

/** A lookup is flat in nftables mode, beside that in a list of iptables, which rises. */
const lookupIsFlat = shapesIn({ read: hostRun, command: MEASURE }, 'nftables', (run) => {
  const list = listOf(run)
  return [rising(list, 'newMoreMicros'), flat(nftablesOf(run), list, 'newMoreMicros')]
})

/**
 * All counts are those of kube-proxy, and a lookup in nftables mode does not depend on the number
 * of Services.
 */
export async function lookedUpInMap(context: CheckContext): Promise<void> {
  const { curves, endpoints } = await hostRun(context)
  for (const { curve, points } of curves)
    expectPredictedCounts(
      curve === 'nftables' ? 'nftables' : 'iptables',
      points,
      endpoints,
      MEASURE,
    )
  await lookupIsFlat(context)
}

/** Prediction: what grows with the Services in nftables mode. */
export async function growsInNftables(context: CheckContext): Promise<Truth> {
  const nftables = nftablesOf(await hostRun(context))
  const last = largestPoint(nftables.points)
  const change = seriesOf(nftables.points, 'changeMs')
  const names = (answer: string) => answer.split(', ')
  return {
    // The program nft looks at what is there first, which a short list or a busy machine hides.
    accepts: ['rules, change', ...(risesClearly(change) ? [] : ['rules'])],
    inspect: show('1'),
    wrong: [
      {
        when: (answer) => names(answer).includes('new-connections'),
        because:
          'A map is a hash table: the kernel computes where the entry of an address and port is. One rule looks it up, however many Services there are.',
      },
      {
        when: (answer) => names(answer).includes('open-connections'),
        because: 'conntrack translates the packets of an open connection, in every mode.',
      },
      {
        when: (answer) => !names(answer).includes('rules'),
        because:
          'Only the list of Services became a map. Each Service still has chains of its own, with a rule for masquerading and one for each endpoint.',
      },
      {
        when: 'rules',
        because: `In the kernel a change is one transaction about two chains. But kube-proxy runs the program nft for it, and nft lists all chains first: ${median(change[0]?.values ?? []).toPrecision(2)} ms at ${change[0]?.size} Services, ${median(last.changeMs).toPrecision(2)} ms at ${last.services}.`,
      },
    ],
    because:
      'Each Service has chains of its own, and the program nft lists all chains before it changes one; a new connection is looked up in a map.',
  }
}

/** Question: the number of rules that each further Service adds in nftables mode. */
export async function rulesOfNftablesService(context: CheckContext): Promise<Truth> {
  const run = await hostRun(context)
  const { points } = nftablesOf(run)
  const [first, last] = [points[0] ?? largestPoint(points), largestPoint(points)]
  const each = (last.rules - first.rules) / (last.services - first.services)
  const { endpoints } = run
  return {
    accepts: [String(each)],
    inspect: show('rules'),
    wrong: [
      {
        when: String(2 + 3 * endpoints),
        because: 'That is iptables mode, in the lines above.',
      },
      {
        when: (answer) => Math.abs(Number(answer) - last.rules / last.services) < 0.1,
        because:
          'That divides all rules by all Services. Some rules exist without any Service: take the difference of two columns.',
      },
      {
        when: '1',
        because:
          'That is its element in the map service-ips, which is no rule. It leads to a chain of the Service, and from there to one of each endpoint.',
      },
    ],
    because: `A rule for masquerading and one that chooses an endpoint, and two in the chain of each of the ${endpoints} endpoints: 2 + 2 × ${endpoints}.`,
  }
}
