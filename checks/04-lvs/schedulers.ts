import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import type { Truth } from '../../grading/question.ts'
import { shareBars } from '../../grading/share-bars.ts'
import {
  type Act,
  type Answer,
  askFromOutside,
  countOf,
  holdFromOutside,
  mustBeAnswered,
  nodeOf,
  tally,
} from './outside-client.ts'
import { client, lvsStage, PORT, REAL_PORT, SECOND_PORT, type Stage, VIP, withoutOne } from './stage.ts'
import { expectScheduling, heaviest, mustHold } from './virtual-server.ts'

/** Two full rounds of weights 3 and 1, so the split is exact at any position in the scheduler's round. */
const REQUESTS = 8
const at = (scheduler: 'rr' | 'wrr') => `${VIP}:${PORT[scheduler]}`
const wrr = { key: `TCP ${at('wrr')}`, scheduler: 'wrr', forward: 'masq', weights: [3, 1] } as const

/** rr takes the real servers strictly in turn, regardless of weights; wrr in proportion to their weights. */
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
  mustBeAnswered(stage, requests, answers, 'make check-4 STEP=virtual-server shows whether the path works.')
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

/** The share of requests that wrr gives to the heavier real server, by the weights on the director. */
export async function heavierShare(context: CheckContext): Promise<Truth> {
  const stage = await lvsStage(context)
  const { realServers } = mustHold(stage, wrr)
  const weights = realServers.map(({ weight }) => weight)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return {
    accepts: [`${Math.max(...weights)}/${total}`],
    inspect: onNode(stage.director.name, `ipvsadm -Ln -t ${at('wrr')}`),
  }
}

type Counting = 'lc' | 'wlc' | 'sed' | 'nq'

/**
 * The expected behaviour of a scheduler with connections that stay open and weights 4 and 1: how many of the first three and
 * of all eight go to the heavy server. Derived from ip_vs_lc.c, ip_vs_wlc.c, ip_vs_sed.c and ip_vs_nq.c; independent of ties.
 */
const RULES: Record<Counting, { early: readonly number[]; all: number; because: string }> = {
  lc: { early: [1, 2], all: 4, because: 'it counts connections and ignores weights' },
  wlc: { early: [2], all: 6, because: 'it divides connections by weight' },
  sed: { early: [3], all: 7, because: 'it adds the new connection before it divides, so the light one waits' },
  nq: { early: [2], all: 7, because: 'it gives an idle server the next one, else it works like sed' },
}
const OPENED = 8
const EARLY = 3
const AFTERWARDS = 2

/** Each of the four schedulers that count connections distributes open connections differently. */
export async function schedulersCountConnections(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  const all = Object.keys(RULES) as Counting[]
  const heavy = all.map((scheduler) =>
    heaviest(
      stage,
      mustHold(stage, { key: `TCP ${VIP}:${PORT[scheduler]}`, scheduler, forward: 'masq', weights: [4, 1] }),
    ),
  )
  const { live } = context
  if (!live) return
  const acts = all.flatMap((scheduler, index) => actsFor(scheduler, heavy[index] ?? ''))
  const answers = await holdFromOutside(live, acts)
  const each = OPENED + AFTERWARDS
  const lines = all.map((scheduler, index) => {
    const own = answers.slice(index * each, (index + 1) * each)
    return judged(stage, scheduler, own, heavy[index] ?? '')
  })
  context.show(['H: the heavy one, L: the light one, in the order in which connections were opened', ...lines])
}

/** Opens eight connections, closes those of the heavy server, opens two more. */
function actsFor(scheduler: Counting, heavy: string): Act[] {
  const hold = { hold: `${VIP}:${PORT[scheduler]}` }
  const opened = Array.from({ length: OPENED }, () => hold)
  const afterwards = Array.from({ length: AFTERWARDS }, () => hold)
  return [...opened, { release: heavy }, ...afterwards, 'release all']
}

/** Fails if the scheduler behaved differently; else returns one line with its choices. */
function judged(stage: Stage, scheduler: Counting, answers: readonly Answer[], heavy: string): string {
  const { early, all, because } = RULES[scheduler]
  const opened = answers.slice(0, OPENED)
  const firstHeavy = countOf(opened.slice(0, EARLY), heavy)
  const allHeavy = countOf(opened, heavy)
  const back = countOf(answers.slice(OPENED), heavy)
  const drawn = answers.map((answer) => letter(answer, heavy))
  const line = `${scheduler.padEnd(3)}  ${drawn.slice(0, OPENED).join(' ')}  then, the heavy one's ended:  ${drawn.slice(OPENED).join(' ')}`
  const to = `${VIP}:${PORT[scheduler]}`
  const hint = 'Other open connections count as well: close yours, then check again.'
  if (answers.includes(undefined)) mustBeAnswered(stage, [{ to }], [undefined], hint)
  expectScheduling(stage, {
    of: `-t ${to}`,
    holds: early.includes(firstHeavy) && allHeavy === all && back === AFTERWARDS,
    expected: `${early.join(' or ')} of the first ${EARLY} and ${all} of ${OPENED} open connections at ${heavy} (weight 4), and the next ${AFTERWARDS} when it is empty: ${scheduler}, as ${because}`,
    actual: line,
    hint,
  })
  return line
}

function letter(answer: Answer, heavy: string): string {
  if (answer === undefined) return '-'
  return nodeOf(answer) === heavy ? 'H' : 'L'
}

type Hashing = 'sh' | 'mh'

const CLIENTS = 40
/** How many of them send a second request. */
const AGAIN = 8
const PORTS = [REAL_PORT.masq, SECOND_PORT]
/** sh reassigns its buckets, so about a third stays by chance; Maglev moves few clients (NSDI 2016, section 5.3). */
const STAYS = { sh: { from: 0, to: 0.65 }, mh: { from: 0.75, to: 1 } } as const

/**
 * Both schedulers send a client to the same real server each time. When one of four is missing, sh also moves most clients of
 * the other servers, and mh keeps them.
 */
export async function schedulersHashSources(context: CheckContext): Promise<void> {
  const stage = await lvsStage(context)
  const shapes = (['sh', 'mh'] as const).map((scheduler) => ({ scheduler, missing: mustHoldBoth(stage, scheduler) }))
  const { live } = context
  if (!live) return
  const lines: string[] = []
  for (const { scheduler, missing } of shapes) {
    const port = PORT[scheduler]
    const from = (clients: number, to: number) =>
      Array.from({ length: clients }, (_, index) => ({ to: `${VIP}:${to}`, source: client(index + 1) }))
    const requests = [...from(CLIENTS, port), ...from(AGAIN, port), ...from(CLIENTS, withoutOne(port))]
    const answers = await askFromOutside(live, requests)
    mustBeAnswered(
      stage,
      requests,
      answers,
      `Outside must have the clients' addresses (ip route add local 198.18.0.0/16 dev lo), and the director a route back to them.`,
    )
    const first = answers.slice(0, CLIENTS)
    mustBeSteady(stage, scheduler, first, answers.slice(CLIENTS, CLIENTS + AGAIN))
    lines.push(stayed(stage, scheduler, first, answers.slice(CLIENTS + AGAIN), missing))
  }
  context.show(lines)
}

/** Four real servers behind one port and three of them behind the other. Returns the name of the fourth, `NODE:PORT`. */
function mustHoldBoth(stage: Stage, scheduler: Hashing): string {
  const port = PORT[scheduler]
  const shape = { scheduler, forward: 'masq', ports: PORTS } as const
  const all = mustHold(stage, { ...shape, key: `TCP ${VIP}:${port}`, weights: [1, 1, 1, 1] })
  const three = mustHold(stage, { ...shape, key: `TCP ${VIP}:${withoutOne(port)}`, weights: [1, 1, 1] })
  const fourth = all.realServers.find(
    (server) => !three.realServers.some((other) => other.address === server.address && other.port === server.port),
  )
  const node = stage.realServers.find(({ address }) => address === fourth?.address)?.node ?? ''
  return `${node}:${fourth?.port ?? 0}`
}

function mustBeSteady(stage: Stage, scheduler: Hashing, first: readonly Answer[], second: readonly Answer[]): void {
  const of = `-t ${VIP}:${PORT[scheduler]}`
  const moved = second.findIndex((answer, index) => answer !== first[index])
  expectScheduling(stage, {
    of,
    holds: moved === -1,
    expected: `that ${scheduler} sends the client ${client(moved + 1)} to the same real server each time`,
    actual: `first ${first[moved]}, then ${second[moved]}`,
  })
  expectScheduling(stage, {
    of,
    holds: new Set(first).size > 1,
    expected: `that ${scheduler} spreads ${CLIENTS} clients over the real servers`,
    actual: `all of them went to ${first[0]}`,
  })
}

function stayed(
  stage: Stage,
  scheduler: Hashing,
  before: readonly Answer[],
  after: readonly Answer[],
  missing: string,
): string {
  const others = before.flatMap((answer, index) => (answer === missing ? [] : [{ answer, later: after[index] }]))
  const same = others.filter(({ answer, later }) => answer === later).length
  const part = same / others.length
  const line = `${scheduler}: without ${missing}, ${same} of ${others.length} clients of the others kept their real server`
  const { from, to } = STAYS[scheduler]
  expectScheduling(stage, {
    of: `-t ${VIP}:${withoutOne(PORT[scheduler])}`,
    holds: part >= from && part <= to,
    expected: `that with ${scheduler} ${from > 0 ? `at least ${from * 100}` : `at most ${to * 100}`} % of the clients stay when one of four real servers is missing`,
    actual: line,
  })
  return line
}
