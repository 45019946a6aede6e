import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { HOOKS } from '../../grading/hook-probes.ts'
import { movedBetween, once, PROBE_PORT, parseProbes, readProbes } from './hook-counters.ts'
import { probesInFiveHooks } from './probes.ts'
import { addressOf, knock, neighbourOf } from './three-ways.ts'

const LOOPBACK = `http://[::1]:${PROBE_PORT}/`
/** A node's packet to itself leaves and enters; nothing forwards it. */
const THERE_AND_BACK = once('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING')
const ATTEMPTS = 3

/**
 * ip6tables has probes of its own in the same five hooks. A packet of IPv4 moves none of them, and one of IPv6 none of
 * iptables'.
 */
export async function familiesAreApart(context: CheckContext): Promise<void> {
  const { node } = probesInFiveHooks(context)
  const { live, snapshot } = context
  if (!live) throw new Trouble('no cluster to send packets in')
  const look = onNode(node.name, 'ip6tables -t mangle -nvL')
  const readings = [readProbes(), readProbes('ip6tables')].join('\n')
  const script = [
    readings,
    knock(addressOf(snapshot, neighbourOf(node, snapshot).name)),
    readings,
    `ip -6 -o addr show lo | grep -q ::1/ && { echo '#sent'; curl -g -s -o /dev/null --max-time 2 '${LOOPBACK}'; }`,
    readings,
  ].join('\n')
  let said = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { stdout } = await live.onNode(node.name, script)
    const [four0, six0, four1, six1, four2, six2] = parseProbes(stdout)
    if (!four0 || !six0 || !four1 || !six1 || !four2 || !six2)
      throw new Trouble(`the counters of ${node.name} could not be read`)
    const bare = HOOKS.filter((hook) => six0[hook] === undefined)
    if (bare.length > 0)
      fail({
        node: node.name,
        look,
        expected: `a probe of ip6tables in each of ${HOOKS.join(', ')}`,
        actual: `none in ${bare.join(', ')}`,
        hint: 'The same five commands with ip6tables in place of iptables.',
      })
    const byFour = movedBetween(six0, six1)
    const bySix = stdout.includes('#sent') ? movedBetween(six1, six2) : THERE_AND_BACK
    const fourBySix = movedBetween(four1, four2)
    if (byFour === 'none' && bySix === THERE_AND_BACK && fourBySix === 'none') return
    said = `an IPv4 packet moved ${byFour} of ip6tables; an IPv6 packet moved ${bySix} of ip6tables and ${fourBySix} of iptables`
  }
  fail({
    node: node.name,
    look,
    expected: `ip6tables to count nothing for a packet of IPv4, and ${THERE_AND_BACK} for one to [::1]`,
    actual: said,
  })
}
