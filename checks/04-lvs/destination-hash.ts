import type { CheckContext, Truth } from '../../grading/check-context.ts'
import { expectOnNode, onNode } from '../../grading/failure.ts'
import type { ClientAction } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { traceOf } from '../../grading/packet-trace.ts'
import { fromOutside } from '../../grading/requests.ts'
import { destinationAddress, type LvsNodes, lvsNodes, NETWORK_SIZE, PORT } from './lvs-nodes.ts'
import { answersFrom, expectAnswered, requestTimes, tally } from './outside-client.ts'
import { compareSchedulers, expectScheduling, expectVirtualServer } from './virtual-server.ts'

const SCHEDULERS = ['dh', 'lblc', 'lblcr'] as const
type Locality = (typeof SCHEDULERS)[number]
/** Number of new destinations, connected to one after the other. */
const FRESH = 16
/**
 * Connections to one destination, with a weight of 2: many more than the weight of one real server.
 */
const BURST = 12

/** The most connections of the burst at one real server, by scheduler. */
const BURST_RULES: Record<Locality, { most: number; because: string }> = {
  dh: { most: BURST, because: 'dh only uses the address' },
  lblc: {
    most: 9,
    because:
      'lblc moves the destination once, when its server has more than its weight and another is idle',
  },
  lblcr: {
    most: BURST / 2,
    because: 'lblcr adds a second server, and then uses the one with fewer',
  },
}

/**
 * All three send a destination to one real server. dh computes which, lblc and lblcr give a new one
 * to the server with the fewest connections; under a burst dh stays, lblc moves the destination and
 * lblcr shares it (ip_vs_dh.c, ip_vs_lblc.c, ip_vs_lblcr.c).
 */
export const schedulersUseDestinations = compareSchedulers(
  SCHEDULERS,
  (lvs, scheduler, live) => {
    expectVirtualServer(lvs, {
      key: `FWM ${PORT[scheduler]}`,
      scheduler,
      forward: 'masq',
      weights: [2, 2],
    })
    if (!live) expectMarkByRules(lvs, scheduler)
  },
  (live, lvs, scheduler) => expectAssigned(live, lvs, scheduler),
)

/**
 * Predict: how many of the connections for one destination the busier real server gets with lblc;
 * the check has measured it.
 */
export async function burstOfLblc(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  const { dh, lblc, lblcr } = BURST_RULES
  return {
    accepts: [`${lblc.most}`],
    inspect: onNode(director.name, 'ipvsadm -Ln'),
    wrong: [
      { when: `${dh.most}`, because: `That is right for dh: ${dh.because}.` },
      { when: `${lblcr.most}`, because: `That is right for lblcr: ${lblcr.because}.` },
    ],
    because: `${lblc.because}.`,
  }
}

/**
 * By the director's rules the first packet to such a destination has the mark of the scheduler's
 * virtual server.
 */
function expectMarkByRules({ director }: LvsNodes, scheduler: Locality): void {
  const port = PORT[scheduler]
  const to = { address: destinationAddress(1), port }
  const { hops } = traceOf(director, fromOutside.sender, to)
  const marks = hops.flatMap(
    ({ rule }) => /-j MARK --set-x?mark (0x[\da-f]+)/.exec(rule)?.[1] ?? [],
  )
  const isMarked = marks.some((mark) => Number(mark) === port)
  expectOnNode(director.name, 'iptables -t mangle -S PREROUTING', isMarked, {
    expected: `a rule in PREROUTING that gives what is sent to port ${port} of 198.19.0.0/16 the mark ${port}`,
    actual: `marks of a packet to ${to.address}:${port}: ${marks.join(', ') || 'none'}`,
  })
}

/**
 * Connects to each of 16 new destinations, then again, then 12 times to one more. Returns one line
 * with the answering servers.
 */
async function expectAssigned(
  live: LiveCluster,
  lvs: LvsNodes,
  scheduler: Locality,
  draw = 0,
): Promise<string> {
  const places = newDestinations(draw).map((address) => ({
    address,
    port: PORT[scheduler],
    hold: true,
  }))
  const fresh = places.slice(0, FRESH)
  const burst = places.slice(FRESH).flatMap((one) => requestTimes(BURST, one))
  const actions: ClientAction[] = [
    ...fresh,
    'release all',
    ...fresh,
    'release all',
    ...burst,
    'release all',
  ]
  const hint = `${lvs.director.name} needs 198.19.0.0/16 as local addresses and a rule in mangle PREROUTING that marks port ${PORT[scheduler]}; outside needs a route there.`
  const answers = await expectAnswered(live, lvs, actions, { hint })
  const [once, again, many] = [
    answers.slice(0, FRESH),
    answers.slice(FRESH, 2 * FRESH),
    answers.slice(2 * FRESH),
  ]
  const of = `-f ${PORT[scheduler]}`
  const moved = once.filter((answer, index) => answer !== again[index]).length
  expectScheduling(lvs, {
    of,
    holds: moved === 0,
    expected: `that ${scheduler} sends each destination to the same real server again`,
    actual: `${moved} of ${FRESH} destinations changed`,
  })
  // The server with fewer connections gets the next one, so of each pair of new destinations both
  // real servers get one.
  const isPaired = once.every((answer, index) => index % 2 === 0 || answer !== once[index - 1])
  // A hash alternates by chance once in 256 measurements.
  if (scheduler === 'dh' && draw === 0 && isPaired) return expectAssigned(live, lvs, scheduler, 1)
  expectScheduling(lvs, {
    of,
    holds: scheduler === 'dh' ? new Set(once).size > 1 && !isPaired : isPaired,
    expected:
      scheduler === 'dh'
        ? 'that dh assigns destinations by a hash of the address, so not in turn'
        : `that ${scheduler} gives each new destination to the real server with fewer open connections`,
    actual: `${FRESH} new destinations${isPaired ? ', strictly alternating' : ''}: ${tally(once, lvs)}`,
  })
  const { most, because } = BURST_RULES[scheduler]
  const line = `${scheduler.padEnd(5)}  ${FRESH} new destinations: ${tally(once, lvs)}; ${BURST} connections to one: ${tally(many, lvs)}`
  expectScheduling(lvs, {
    of,
    holds: Math.max(...lvs.realServers.map(({ node }) => answersFrom(many, node))) === most,
    expected: `${most} of ${BURST} connections for one destination at one real server: ${because}`,
    actual: line,
  })
  return line
}

/**
 * 17 destinations. The locality schedulers remember a destination for a day, so each second uses
 * others.
 */
function newDestinations(draw: number): string[] {
  const slots = Math.floor(NETWORK_SIZE / (FRESH + 1))
  const slot = (Math.floor(Date.now() / 1000) + draw * Math.floor(slots / 2)) % slots
  return Array.from({ length: FRESH + 1 }, (_, index) =>
    destinationAddress(slot * (FRESH + 1) + index),
  )
}
