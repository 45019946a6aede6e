// Connections of the machine outside the cluster to virtual servers: single requests, and connections that stay open.

import type { Advice } from '../../grading/advice.ts'
import { fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { fromOutside, typedRequest } from '../../grading/requests.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { programText } from '../../host/program-text.ts'
import type { LvsNodes } from './lvs-nodes.ts'

/** One request on a connection of its own, which is closed after the answer, or stays open. */
interface Request {
  address: string
  port: number
  /** An address of the machine outside to send from. */
  source?: string
  hold?: boolean
}

/** An action of the client: a request, or the end of the open connections to a node, or of all of them. */
export type ClientAction = Request | { release: string } | 'release all'

const isRequest = (act: ClientAction): act is Request => act !== 'release all' && 'address' in act

/** This number of the same request. */
export const requestTimes = (times: number, request: Request): ClientAction[] =>
  Array<ClientAction>(times).fill(request)

// Perl is part of every Debian, and one process for all connections avoids a fork for each. They end with a reset, after
// which IPVS lists them for 10 s instead of two minutes.
const CLIENT = programText('checks/04-lvs/outside-client.pl')

function asLine(act: ClientAction): string {
  if (act === 'release all') return 'release'
  if (!isRequest(act)) return `release ${act.release}`
  return `${act.hold ? 'hold' : 'request'} ${act.address} ${act.port} ${act.source ?? ''}`
}

const NODE_AND_PORT = /^(\S+):\d+$/

/** Performs actions in order, until an answer is missing. Returns the answers: the names of real servers, `NODE:PORT`. */
export async function perform(live: LiveCluster, acts: readonly ClientAction[]): Promise<string[]> {
  const { stdout } = await live.onNode(
    OUTSIDE,
    `perl - <<'END'\n${CLIENT}${acts.map(asLine).join('\n')}\nEND`,
  )
  return [...stdout.matchAll(/^#answer (.*)$/gm)].flatMap(([, name = '']) =>
    NODE_AND_PORT.test(name) ? name : [],
  )
}

/** Like perform, but fails on the first connection without an answer. */
export async function expectAnswered(
  live: LiveCluster,
  { director }: LvsNodes,
  acts: readonly ClientAction[],
  advice: Partial<Advice>,
): Promise<string[]> {
  const answers = await perform(live, acts)
  const request = acts.filter(isRequest)[answers.length]
  if (!request) return answers
  return fail({
    node: director.name,
    inspect: typedRequest(fromOutside, { ...request, seconds: 2 }),
    expected: `an answer of a real server through ${request.address}:${request.port}`,
    actual: 'no answer',
    ...advice,
  })
}

/** The node in a real server's answer. */
export const nodeOf = (answer = ''): string => NODE_AND_PORT.exec(answer)?.[1] ?? ''

export const answersFrom = (answers: readonly string[], node: string): number =>
  answers.filter((answer) => nodeOf(answer) === node).length

/** How often each real server's node answered, as `NODE 6, NODE 2`. */
export const tally = (answers: readonly string[], { realServers }: LvsNodes): string =>
  realServers.map(({ node }) => `${node} ${answersFrom(answers, node)}`).join(', ')
