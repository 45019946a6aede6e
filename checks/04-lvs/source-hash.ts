import type { CheckContext } from '../../grading/check-context.ts'
import { client, PORT, REAL_PORT, SECOND_PORT, VIP, withoutOne } from './addresses.ts'
import { type Answer, askFromOutside, mustBeAnswered } from './outside-client.ts'
import { lvsStage, type Stage } from './stage.ts'
import { expectScheduling, mustHold } from './virtual-server.ts'

type Hashing = 'sh' | 'mh'

const CLIENTS = 40
/** So many of them ask twice. */
const AGAIN = 8
const PORTS = [REAL_PORT.masq, SECOND_PORT]
/** sh deals its buckets anew, so about a third stays by chance; Maglev moves hardly any (NSDI 2016, section 5.3). */
const STAYS = { sh: { from: 0, to: 0.65 }, mh: { from: 0.75, to: 1 } } as const

/**
 * Both schedulers send a client to the same real server each time. When one of four is missing, sh sends most of the others'
 * clients elsewhere, too, and mh leaves them where they were.
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
  const line = `${scheduler}: without ${missing}, ${same} of ${others.length} clients of the others stayed where they were`
  const { from, to } = STAYS[scheduler]
  expectScheduling(stage, {
    of: `-t ${VIP}:${withoutOne(PORT[scheduler])}`,
    holds: part >= from && part <= to,
    expected: `that with ${scheduler} ${from > 0 ? `at least ${from * 100}` : `at most ${to * 100}`} % of the clients stay when one of four real servers is missing`,
    actual: line,
  })
  return line
}
