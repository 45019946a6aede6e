import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/failure.ts'
import type { ClientAction } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { shareBars } from '../../grading/shares.ts'
import {
  clientAddress,
  type LvsNodes,
  lvsNodes,
  PORT,
  REAL_PORT,
  SECOND_PORT,
  VIP,
  withoutOne,
} from './lvs-nodes.ts'
import { answersFrom, expectAnswered, nodeOf, requestTimes, tally } from './outside-client.ts'
import {
  CHECK_FIRST,
  compareSchedulers,
  expectScheduling,
  expectVirtualServer,
  heaviest,
} from './virtual-server.ts'

/**
 * Two full rounds of weights 3 and 1, so the split is exact at any position in the scheduler's
 * round.
 */
const REQUESTS = 8
const at = (scheduler: keyof typeof PORT) => ({ address: VIP, port: PORT[scheduler] })
const wrr = {
  key: `TCP ${VIP}:${PORT.wrr}`,
  scheduler: 'wrr',
  forward: 'masq',
  weights: [3, 1],
} as const

/**
 * rr takes the real servers strictly in turn, regardless of weights; wrr in proportion to their
 * weights.
 */
export async function schedulersTakeTurns(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  expectVirtualServer(lvs, {
    key: `TCP ${VIP}:${PORT.rr}`,
    scheduler: 'rr',
    forward: 'masq',
    weights: [3, 1],
  })
  const weighted = expectVirtualServer(lvs, wrr)
  if (!context.live) return
  const actions = [...requestTimes(REQUESTS, at('rr')), ...requestTimes(REQUESTS, at('wrr'))]
  const answers = await expectAnswered(context.live, lvs, actions, CHECK_FIRST)
  const [turns, shares] = [answers.slice(0, REQUESTS), answers.slice(REQUESTS)]
  const bars = Object.entries({ rr: turns, wrr: shares }).flatMap(([scheduler, all]) =>
    lvs.realServers.map(({ node }) => ({
      labels: [scheduler, node],
      count: answersFrom(all, node),
    })),
  )
  context.show(shareBars(bars))
  const again = turns.findIndex(
    (answer, index) => index > 0 && nodeOf(answer) === nodeOf(turns[index - 1]),
  )
  expectScheduling(lvs, {
    holds: again === -1,
    expected: `that rr never takes the same real server twice in a row (port ${PORT.rr})`,
    actual: `requests ${again} and ${again + 1} both went to ${nodeOf(turns[again])}`,
  })
  const heavy = heaviest(lvs, weighted)
  expectScheduling(lvs, {
    holds: answersFrom(shares, heavy) === (REQUESTS * 3) / 4,
    expected: `${(REQUESTS * 3) / 4} of ${REQUESTS} requests for ${heavy}, whose weight is 3 of 4 (port ${PORT.wrr})`,
    actual: tally(shares, lvs),
  })
}

/**
 * The share of requests that wrr gives to the heavier real server, by the weights on the director.
 */
export async function heavierShare(context: CheckContext): Promise<Truth> {
  const lvs = await lvsNodes(context)
  const { realServers } = expectVirtualServer(lvs, wrr)
  const weights = realServers.map(({ weight }) => weight)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return {
    accepts: [`${Math.max(...weights)}/${total}`],
    inspect: onNode(lvs.director.name, `ipvsadm -Ln -t ${VIP}:${PORT.wrr}`),
    wrong: [
      {
        when: '1/2',
        because: 'That is its share with rr, which ignores weights.',
      },
      {
        when: `1/${Math.max(...weights)}`,
        because: 'A weight is a part of the sum of all weights.',
      },
    ],
    because: 'Its weight divided by the sum of all weights.',
  }
}

/** Predict: how many of eight requests the heavier real server gets with rr. */
export async function turnsOfHeavier(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  return {
    accepts: [`${REQUESTS / 2}`],
    inspect: onNode(director.name, `ipvsadm -Ln -t ${VIP}:${PORT.rr}`),
    wrong: [
      {
        when: `${(REQUESTS * 3) / 4}`,
        because: 'That is right for wrr, on the other port. rr ignores weights.',
      },
    ],
    because:
      'rr alternates, whatever the weights. wrr gives three of four requests to the weight 3.',
  }
}

type Counting = 'lc' | 'wlc' | 'sed' | 'nq'

/**
 * The expected behaviour of a scheduler with connections that stay open and weights 4 and 1: how
 * many of the first three and of all eight go to the heavy server. Derived from ip_vs_lc.c,
 * ip_vs_wlc.c, ip_vs_sed.c and ip_vs_nq.c; independent of ties.
 */
const RULES: Record<Counting, { early: readonly number[]; all: number; because: string }> = {
  lc: { early: [1, 2], all: 4, because: 'it counts connections and ignores weights' },
  wlc: { early: [2], all: 6, because: 'it divides connections by weight' },
  sed: {
    early: [3],
    all: 7,
    because: 'it adds the new connection before it divides, so the light one waits',
  },
  nq: {
    early: [2],
    all: 7,
    because: 'it gives an idle server the next one, else it works like sed',
  },
}
const OPENED = 8
const EARLY = 3
const AFTERWARDS = 2

/** Each of the four schedulers that count connections distributes open connections differently. */
export const schedulersCountConnections = compareSchedulers(
  Object.keys(RULES) as Counting[],
  (lvs, scheduler) => {
    const key = `TCP ${VIP}:${PORT[scheduler]}`
    return heaviest(
      lvs,
      expectVirtualServer(lvs, { key, scheduler, forward: 'masq', weights: [4, 1] }),
    )
  },
  expectCounting,
  ['H: the heavy one, L: the light one, in the order in which connections were opened'],
)

/**
 * Opens eight connections, closes the heavy server's, opens two more. Fails unless the choices are
 * the scheduler's; returns them as a line.
 */
async function expectCounting(
  live: LiveCluster,
  lvs: LvsNodes,
  scheduler: Counting,
  heavy: string,
): Promise<string> {
  const { early, all, because } = RULES[scheduler]
  const to = `${VIP}:${PORT[scheduler]}`
  const hint = 'Other open connections count as well: close yours, then check again.'
  const open = (count: number) => requestTimes(count, { ...at(scheduler), hold: true })
  const actions: ClientAction[] = [
    ...open(OPENED),
    { release: heavy },
    ...open(AFTERWARDS),
    'release all',
  ]
  const answers = await expectAnswered(live, lvs, actions, { hint })
  const [opened, afterwards] = [answers.slice(0, OPENED), answers.slice(OPENED)]
  const draw = (some: readonly string[]) =>
    some.map((one) => (nodeOf(one) === heavy ? 'H' : 'L')).join(' ')
  const line = `${scheduler.padEnd(3)}  ${draw(opened)}  then, the heavy one's ended:  ${draw(afterwards)}`
  const isEarly = early.includes(answersFrom(opened.slice(0, EARLY), heavy))
  expectScheduling(lvs, {
    of: `-t ${to}`,
    holds:
      isEarly &&
      answersFrom(opened, heavy) === all &&
      answersFrom(afterwards, heavy) === AFTERWARDS,
    expected: `${early.join(' or ')} of the first ${EARLY} and ${all} of ${OPENED} open connections at ${heavy} (weight 4), and the next ${AFTERWARDS} when it is empty: ${scheduler}, as ${because}`,
    actual: line,
    hint,
  })
  return line
}

/**
 * Predict: how many of eight open connections the heavier real server gets with wlc; the check has
 * measured it.
 */
export async function openAtHeavier(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  return {
    accepts: [`${RULES.wlc.all}`],
    inspect: onNode(director.name, `ipvsadm -Ln -t ${VIP}:${PORT.wlc}`),
    wrong: [
      { when: `${RULES.lc.all}`, because: 'That is right for lc, which ignores weights.' },
      {
        when: `${RULES.sed.all}`,
        because: 'That is right for sed and nq, which add the new connection before they divide.',
      },
      {
        when: `${OPENED}`,
        because:
          'wlc compares connections divided by weight: the lighter server gets its turn when the heavier one has four times as many.',
      },
    ],
    because: 'wlc keeps connections divided by weight equal: six by four, two by one.',
  }
}

/**
 * Predict: how many clients keep their real server with mh when another one is removed; the check
 * has measured it.
 */
export async function clientsThatStay(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  return {
    accepts: [STAYS.mh.least > 0.5 ? 'nearly all' : 'few'],
    inspect: onNode(director.name, `ipvsadm -Ln -t ${VIP}:${PORT.mh}`),
    wrong: [
      {
        when: 'few',
        because:
          'That is what sh does: without one server it assigns all places of its table again.',
      },
      {
        when: 'about half',
        because:
          'A hash modulo the number of servers would move even more. mh was made so that mostly the clients of the missing server move.',
      },
    ],
    because:
      'mh builds its table by preferences of the servers, so that mostly the places of the missing one are assigned again.',
  }
}

type Hashing = 'sh' | 'mh'

const CLIENTS = 40
/** How many of them send a second request. */
const AGAIN = 8
const PORTS = [REAL_PORT.masq, SECOND_PORT]
/**
 * sh reassigns its buckets, so about a third stays by chance; Maglev moves few clients (NSDI 2016,
 * section 5.3).
 */
const STAYS = { sh: { least: 0, most: 0.65 }, mh: { least: 0.75, most: 1 } } as const

/**
 * Both send a client to the same real server each time. Without one of four, sh also moves most
 * clients of the others, mh keeps them.
 */
export const schedulersHashSources = compareSchedulers(
  ['sh', 'mh'],
  expectBothServers,
  expectHashing,
)

/**
 * Four real servers behind one port and three of them behind the other. Returns the name of the
 * fourth, `NODE:PORT`.
 */
function expectBothServers(lvs: LvsNodes, scheduler: Hashing): string {
  const port = PORT[scheduler]
  const shape = { scheduler, forward: 'masq', ports: PORTS } as const
  const all = expectVirtualServer(lvs, {
    ...shape,
    key: `TCP ${VIP}:${port}`,
    weights: [1, 1, 1, 1],
  })
  const three = expectVirtualServer(lvs, {
    ...shape,
    key: `TCP ${VIP}:${withoutOne(port)}`,
    weights: [1, 1, 1],
  })
  const fourth = all.realServers.find(
    (server) =>
      !three.realServers.some(
        (other) => other.address === server.address && other.port === server.port,
      ),
  )
  const node = lvs.realServers.find(({ address }) => address === fourth?.address)?.node ?? ''
  return `${node}:${fourth?.port ?? 0}`
}

/**
 * Each client sends a request, some a second one, and each one to the port without that server.
 * Returns how many kept their server.
 */
async function expectHashing(
  live: LiveCluster,
  lvs: LvsNodes,
  scheduler: Hashing,
  missing: string,
): Promise<string> {
  const port = PORT[scheduler]
  const from = (clients: number, to: number): ClientAction[] =>
    Array.from({ length: clients }, (_, index) => ({
      address: VIP,
      port: to,
      source: clientAddress(index + 1),
    }))
  const actions = [...from(CLIENTS, port), ...from(AGAIN, port), ...from(CLIENTS, withoutOne(port))]
  const hint = `Outside must have the clients' addresses (ip route add local 198.18.0.0/16 dev lo), and the director a route back to them.`
  const answers = await expectAnswered(live, lvs, actions, { hint })
  const [first, second] = [answers.slice(0, CLIENTS), answers.slice(CLIENTS, CLIENTS + AGAIN)]
  const of = `-t ${VIP}:${port}`
  const moved = second.findIndex((answer, index) => answer !== first[index])
  expectScheduling(lvs, {
    of,
    holds: moved === -1,
    expected: `that ${scheduler} sends the client ${clientAddress(moved + 1)} to the same real server each time`,
    actual: `first ${first[moved]}, then ${second[moved]}`,
  })
  expectScheduling(lvs, {
    of,
    holds: new Set(first).size > 1,
    expected: `that ${scheduler} spreads ${CLIENTS} clients over the real servers`,
    actual: `all of them went to ${first[0]}`,
  })
  const after = answers.slice(CLIENTS + AGAIN)
  const others = first.flatMap((answer, index) =>
    answer === missing ? [] : [{ answer, later: after[index] }],
  )
  const same = others.filter(({ answer, later }) => answer === later).length
  const line = `${scheduler}: without ${missing}, ${same} of ${others.length} clients of the others kept their real server`
  const { least, most } = STAYS[scheduler]
  expectScheduling(lvs, {
    of: `-t ${VIP}:${withoutOne(port)}`,
    holds: same >= least * others.length && same <= most * others.length,
    expected: `that with ${scheduler} ${least > 0 ? `at least ${least * 100}` : `at most ${most * 100}`} % of the clients stay when one of four real servers is missing`,
    actual: line,
  })
  return line
}
