import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Stop } from './packet-path.ts'

/** kube-proxy's own syncs set the counters of its chains to zero; the measurement is repeated up to this often. */
const ATTEMPTS = 3

/**
 * Does some work and returns by how many packets a rule's counter grew meanwhile. Throws Trouble when the rule is gone, or is
 * rewritten each time.
 */
async function countedDuring<T>(
  live: LiveCluster,
  node: string,
  rule: Stop,
  work: () => Promise<T>,
): Promise<{ packets: number; result: T }> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = await packetsOf(live, node, rule)
    const result = await work()
    const packets = (await packetsOf(live, node, rule)) - before
    if (packets >= 0) return { packets, result }
  }
  throw new Trouble(`the counter of "${rule.rule}" on ${node} could not be read`)
}

/** What expectCounted is to see of one request that a rule stops. */
export const STOPPED_AND_COUNTED = {
  answers: 0,
  counted: true,
  expected: 'a request that gets no answer, and a packet more on the rule',
}

/**
 * Requests that are sent meanwhile get this number of answers, and move the rule's counter or leave it where it is. Fails otherwise;
 * throws Trouble as countedDuring does.
 */
export async function expectCounted(
  live: LiveCluster,
  { node, rule, look }: { node: string; rule: Stop; look: string },
  send: () => Promise<number>,
  { answers, counted, expected }: { answers: number; counted: boolean; expected: string },
): Promise<void> {
  const { packets, result } = await countedDuring(live, node, rule, send)
  if (result === answers && packets > 0 === counted) return
  fail({
    node,
    look: onNode(node, look),
    expected,
    actual: `${result === 0 ? 'no answer' : result === 1 ? 'an answer' : `${result} answers`} and ${packets} packets more on the rule`,
  })
}

async function packetsOf(live: LiveCluster, node: string, { table, chain, rule }: Stop): Promise<number> {
  const { stdout } = await live.onNode(node, `iptables-save -c -t ${table}`)
  try {
    const rules = parseIptablesSave(stdout).get(table)?.get(chain)?.rules ?? []
    const found = rules.find(({ spec }) => `-A ${chain} ${spec}` === rule)
    if (found) return found.packets ?? 0
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
  }
  throw new Trouble(`the rule "${rule}" is no longer on ${node}`)
}
