import { holdingEntries, type NodeHoldings } from './holdings.ts'
import type { PacketPath, PathAction, PathEnd } from './packet-path.ts'

/**
 * Below this chance that as few packets as were counted came to a rule, kernel and prediction
 * disagree.
 */
const IMPLAUSIBLE = 0.001

/**
 * A path with what the kernel counted while `sent` new connections were made: packets at each rule,
 * connections at each real server. Where a rule has no counter (nf_tables) nothing is said.
 */
export function countedOn(
  path: PacketPath,
  before: NodeHoldings,
  after: NodeHoldings,
  sent: number,
): PacketPath {
  const [was, is] = [countersOf(before), countersOf(after)]
  const countOf = (ids: readonly string[]): number | undefined => {
    const counts = ids.flatMap((id) =>
      is.has(id) ? (is.get(id) as number) - (was.get(id) ?? 0) : [],
    )
    return counts.length === 0 || counts.length < ids.length
      ? undefined
      : counts.reduce((sum, one) => sum + one, 0)
  }
  const hooks = path.hooks.map(({ hook, actions }) => ({
    hook,
    actions: actions.map((action): PathAction => {
      const counted = countOf(action.entries)
      // One rule that does different things to parts of the connections (MASQUERADE by interface)
      // has one counter for all.
      const isShared = actions.some(
        (other) => other !== action && other.entries.join() === action.entries.join(),
      )
      if (counted === undefined || isShared) return action
      const chance =
        action.probability > 1 - 1e-6 ? Number(counted >= sent) : (1 - action.probability) ** sent
      const disagrees =
        counted < sent && (counted === 0 || action.probability > 1 - 1e-6) && chance < IMPLAUSIBLE
      return { ...action, counted, ...(disagrees && { disagrees: true as const }) }
    }),
  }))
  const actions = hooks.flatMap((one) => one.actions)
  const ends = path.ends.map((end): PathEnd => {
    const isOnly = path.ends.filter(({ to, by }) => to === end.to && by === end.by).length === 1
    const action = actions.findLast(({ text, table, chains }) =>
      end.to === undefined
        ? /^(DROP|REJECT)/.test(text) && end.by === `${table} ${chains.at(-1)}`
        : text.endsWith(` to ${end.to}`),
    )
    return isOnly && action?.counted !== undefined ? { ...end, counted: action.counted } : end
  })
  return { ...path, hooks, ends }
}

function countersOf(holdings: NodeHoldings): Map<string, number> {
  const counters = new Map<string, number>()
  for (const { id, packets, connections } of holdingEntries(holdings)) {
    if (packets !== undefined) counters.set(id, packets)
    else if (connections) counters.set(id, connections.active + connections.inactive)
  }
  return counters
}
