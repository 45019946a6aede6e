import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { ParseError } from '../../dataplane/parse-error.ts'
import { Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Stop } from './packet-path.ts'

/** kube-proxy's own syncs zero the counters of its chains; so often it is tried again. */
const ATTEMPTS = 3

/**
 * Does some work and says by how many packets a rule's counter grew meanwhile. Throws Trouble when the rule is gone, or is
 * written anew each time.
 */
export async function countedDuring<T>(
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
