// Short requests, one after the other, through schedulers that count connections: sed and nq see
// open ones only.

import * as z from 'zod'
import type { Check, CheckContext, Truth } from '../../grading/check-context.ts'
import { NotApplicable, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { type LvsNodes, lvsNodes, VIP } from './lvs-nodes.ts'
import { answersFrom, expectAnswered, requestTimes, tally } from './outside-client.ts'
import { CHECK_FIRST, expectScheduling, expectVirtualServer } from './virtual-server.ts'

/** The ports of the virtual servers in the lab's text. */
export const SHORT_PORT = { wlc: 8114, sed: 8115, nq: 8116 } as const
type Short = keyof typeof SHORT_PORT
const SCHEDULERS = Object.keys(SHORT_PORT) as Short[]

const SHORT_REQUESTS = 20
/**
 * wlc counts closed connections a little, for as long as IPVS lists them, so it takes turns; other
 * requests may disturb it.
 */
const MOST_OF_WLC = 14

const NOTE = 'short-requests'
/** Scheduler → how many of the requests the busier real server got. */
const measuredNote = z.object({ wlc: z.number(), sed: z.number(), nq: z.number() })

/**
 * With requests that end before the next one, sed and nq use one real server, wlc both
 * (ip_vs_wlc.c, ip_vs_sed.c, ip_vs_nq.c).
 */
export const shortRequestsStayAtOne: Check = async (context) => {
  const { live, notes, asks } = context
  if (!asks) throw new NotApplicable('this capture was taken before the lab had this step')
  const lvs = await lvsNodes(context)
  for (const scheduler of SCHEDULERS)
    expectVirtualServer(lvs, {
      key: `TCP ${VIP}:${SHORT_PORT[scheduler]}`,
      scheduler,
      forward: 'masq',
      weights: [1, 1],
    })
  if (!live) return
  const measured: Record<string, number> = {}
  const lines: string[] = []
  for (const scheduler of SCHEDULERS) {
    const { most, line } = await expectShares(live, lvs, scheduler)
    measured[scheduler] = most
    lines.push(line)
  }
  context.show(lines)
  notes.keep(NOTE, measured)
}

async function expectShares(live: LiveCluster, lvs: LvsNodes, scheduler: Short) {
  const to = { address: VIP, port: SHORT_PORT[scheduler] }
  const answered = await expectAnswered(live, lvs, requestTimes(SHORT_REQUESTS, to), CHECK_FIRST)
  const most = Math.max(...lvs.realServers.map(({ node }) => answersFrom(answered, node)))
  const line = `${scheduler.padEnd(3)}  ${SHORT_REQUESTS} short requests: ${tally(answered, lvs)}`
  const isOne = scheduler !== 'wlc'
  expectScheduling(lvs, {
    of: `-t ${to.address}:${to.port}`,
    holds: isOne ? most === SHORT_REQUESTS : most <= MOST_OF_WLC,
    expected: isOne
      ? `all ${SHORT_REQUESTS} short requests at one real server: ${scheduler} finds no open connection at either of them`
      : `${SHORT_REQUESTS} short requests at both real servers: wlc counts closed connections, too`,
    actual: line,
    hint: 'Open connections count: close yours, then check again.',
  })
  return { most, line }
}

/** The measured shares. Not applicable on a capture without them. */
function measuredShares({ notes }: CheckContext): z.infer<typeof measuredNote> {
  const measured = notes.read(NOTE, measuredNote)
  if (!measured)
    throw new NotApplicable('the requests were not measured when this capture was taken')
  return measured
}

const inspectOn = async (context: CheckContext, scheduler: Short): Promise<string> =>
  onNode((await lvsNodes(context)).director.name, `ipvsadm -Ln -t ${VIP}:${SHORT_PORT[scheduler]}`)

/** Predict: how many of the requests go to the busier real server with sed. */
export async function mostOfSed(context: CheckContext): Promise<Truth> {
  const { sed } = measuredShares(context)
  return {
    accepts: [`${sed}`],
    inspect: await inspectOn(context, 'sed'),
    wrong: [
      {
        when: `${SHORT_REQUESTS / 2}`,
        because:
          'With equal weights that looks fair, and is what wlc does. sed compares open connections, and when the next request comes, neither server has one.',
      },
      {
        when: `${SHORT_REQUESTS / 2 + 1}`,
        because:
          'sed adds the new connection before it divides, but to both servers alike. With no open connection at either, the same one wins every time.',
      },
    ],
    because:
      'sed means shortest expected delay. It expects none at a server without open connections, and takes the first such server, each time the same.',
  }
}

/** Question: the column that sed compares. */
export async function countedColumn(context: CheckContext): Promise<Truth> {
  const { sed, wlc } = measuredShares(context)
  if (sed !== SHORT_REQUESTS || wlc >= SHORT_REQUESTS)
    throw new NotApplicable('the schedulers did not differ when they were measured')
  return {
    accepts: ['ActiveConn'],
    inspect: await inspectOn(context, 'sed'),
    wrong: [
      {
        when: 'InActConn',
        because:
          'That column is 20 for one server and 0 for the other, and sed took the one with 20 every time: it does not look at it. wlc does, a little.',
      },
      {
        when: 'Weight',
        because: 'The weights are equal, so they decide nothing here.',
      },
    ],
    because:
      'ActiveConn counts established connections only. When each request ends before the next one begins, it is 0 for both servers, and sed and nq always choose the same one. wlc counts closed connections too, with a 256th of the weight.',
  }
}
